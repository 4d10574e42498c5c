#include "audit/finished_judgement.h"

#include "base/bytes.h"
#include "base/error.h"

namespace ttrace::audit {

std::string judgement_text(const ExpressionJudged& judged) {
  // Stops compiling when a member is added that would be forgotten here.
  const auto& [operation, result, expected, error, bound, expected_norm, allowed, reason, by_probes,
               overflow, rows, ranks] = judged.check;
  base::ByteWriter out;
  out.text(operation);
  out.count(static_cast<std::uint64_t>(result));
  out.text(expected);
  for (const double value : {error, bound, expected_norm, allowed}) out.number(value);
  out.text(reason);
  out.count(by_probes ? 1 : 0);
  out.count(overflow ? 1 : 0);
  out.text(rows);
  out.count(ranks.size());
  for (const std::uint64_t rank : ranks) out.count(rank);
  out.count(judged.endless);
  return out.bytes();
}

ExpressionJudged parse_judgement(std::string_view text) {
  base::ByteReader in(text);
  ExpressionJudged judged;
  auto& [operation, result, expected, error, bound, expected_norm, allowed, reason, by_probes,
         overflow, rows, ranks] = judged.check;
  operation = in.text();
  const std::uint64_t number = in.count();
  if (number > static_cast<std::uint64_t>(CheckResult::kBelowBound)) {
    throw base::input_error("has a check of an unknown result");
  }
  result = static_cast<CheckResult>(number);
  expected = in.text();
  for (double* const value : {&error, &bound, &expected_norm, &allowed}) *value = in.number();
  reason = in.text();
  by_probes = in.flag();
  overflow = in.flag();
  rows = in.text();
  for (std::uint64_t left = in.items(); left > 0; --left) ranks.push_back(in.count());
  judged.endless = in.count();
  in.finish();
  return judged;
}

}  // namespace ttrace::audit
