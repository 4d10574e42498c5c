#include "report/notes_text.h"

#include <algorithm>
#include <map>
#include <ostream>

#include "base/display_limits.h"
#include "base/text.h"
#include "localize/microbatch_mismatch.h"
#include "routing/explain_flips.h"

namespace ttrace::report {
namespace {

using base::concat;
using base::printable;
using judge::Outcome;

}  // namespace

std::string describe_microbatches(const comparison::CompareReport& report) {
  const comparison::MicrobatchMismatch& mismatch = *report.microbatches;
  return concat(mismatch.shown_by
                    ? concat("shown by ", to_string(report.results[*mismatch.shown_by].key))
                    : localize::describe_numbers(mismatch),
                "; ", localize::remedy_of(mismatch));
}

void write_microbatches(const comparison::CompareReport& report, std::ostream& out) {
  if (!report.microbatches) return;
  out << "\n  micro-batches: " << printable(describe_microbatches(report)) << ".\n";
}

void write_start(const comparison::CompareReport& report, std::ostream& out) {
  const comparison::OtherStart& start = *report.other_start;
  using What = comparison::OtherStart::What;
  if (start.what == What::kDraws || start.what == What::kDropout) {
    out << "\n  Whatever follows from them is not listed (--all lists it).\n";
    return;
  }
  const trace::Kind kind = start.what == comparison::OtherStart::What::kWeights
                               ? trace::Kind::kParam
                               : trace::Kind::kInput;
  std::vector<const comparison::TensorComparison*> differing;
  for (const comparison::ComparedFinding& finding : report.findings) {
    const comparison::TensorComparison& result = report.results[finding.result];
    if (result.key.step == start.step && result.key.kind == kind) differing.push_back(&result);
  }
  out << "\n  differ: ";
  for (std::size_t i = 0; i < differing.size() && i < base::kShown.names; ++i) {
    out << (i > 0 ? ", " : "") << printable(to_string(differing[i]->key));
  }
  if (differing.size() > base::kShown.names) {
    out << " and " << differing.size() - base::kShown.names << " more";
  }
  out << ". Whatever follows from them is not listed (--all lists it).\n";
}

std::string describe_tokens_left_out(const comparison::TensorComparison& result) {
  if (result.tokens_left_out == 0) return "";
  return concat("without the rows of ", base::plural(result.tokens_left_out, "token"),
                " that went to other experts");
}

void write_routing(const comparison::CompareReport& report, bool all, std::ostream& out) {
  if (report.routers.empty()) return;
  std::uint64_t flipped = 0;
  std::uint64_t unexplained = 0;
  for (const comparison::RouterFlips& router : report.routers) {
    flipped += router.flipped;
    unexplained += router.unexplained;
  }
  const auto without = static_cast<std::uint64_t>(std::count_if(
      report.results.begin(), report.results.end(), [](const comparison::TensorComparison& result) {
        return result.tokens_left_out > 0 && result.outcome == Outcome::kMatch;
      }));
  out << "  routing: " << base::plural(flipped, "token") << " went to other experts in "
      << base::plural(report.routers.size(), "router");
  if (unexplained > 0) {
    out << ", " << unexplained << " of them not explained by rounding";
  } else {
    out << ", rounding explains them all, which is no bug by itself";
  }
  out << "; " << base::plural(without, "tensor") << " matched without their rows, "
      << report.counts.at(Outcome::kAfterRoutingFlip) << " computed from them not judged\n";
  std::size_t shown = 0;
  for (const comparison::RouterFlips& router : report.routers) {
    if (!all && shown == base::kShown.names) break;
    ++shown;
    out << "    " << printable(to_string(router.key)) << ": "
        << printable(routing::describe_flips(router)) << "\n";
  }
  if (shown < report.routers.size()) {
    out << "    and " << report.routers.size() - shown << " more (--all)\n";
  }
}

void write_unmatched(const comparison::CompareReport& report, bool all, std::ostream& out) {
  // By name, because all kinds of a name have the same answer.
  std::map<std::string, const comparison::TensorComparison*> unmatched;
  for (const comparison::TensorComparison& result : report.results) {
    if (result.outcome != Outcome::kMissing || result.nearest->empty()) continue;
    unmatched.emplace(result.key.name, &result);
  }
  if (unmatched.empty()) return;
  out << "\n  names that only one side has, with the nearest of the same shape on the other (--map "
         "RULES.json maps one to the other):\n";
  std::size_t lines = 0;
  for (const auto& [name, result] : unmatched) {
    if (!all && lines++ == base::kShown.unmatched) break;
    out << "    reference " << printable(name) << " " << tensor::to_string(result->shape)
        << "  candidate ";
    for (std::size_t i = 0; i < result->nearest->size(); ++i) {
      out << (i > 0 ? ", " : "") << printable((*result->nearest)[i]);
    }
    out << "\n";
  }
  if (!all && unmatched.size() > base::kShown.unmatched) {
    out << "    and " << unmatched.size() - base::kShown.unmatched << " more (--all)\n";
  }
}

}  // namespace ttrace::report
