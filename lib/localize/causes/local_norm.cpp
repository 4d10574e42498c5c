#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "localize/causes/gradient_parts.h"
#include "localize/causes/trial.h"
#include "trace/normed_parts.h"

namespace ttrace::localize {
namespace {

// How far, relative to it, a recorded norm may be from that of the gradients it was made of. One of
// 124 million parameters, added up in single precision, is 8.5e-5 off; if a larger one is off by
// more, no part is named.
constexpr double kMostOffNorm = 1e-4;
constexpr double kMostLeftOfNorm = 0.1;  // of how far it is from the norm of all

}  // namespace

std::vector<Cause> find_local_norm(const Case& the_case) {
  if (the_case.related == nullptr || the_case.result == nullptr || the_case.exact) return {};
  const trace::TensorKey& key = the_case.result->key;
  const auto elements = tensor::element_count(the_case.candidate.view->shape);
  if (key.kind != trace::Kind::kGradNorm || elements != 1) return {};
  std::array<double, 1> recorded{};
  the_case.candidate.open(measure::Replicas::kFirstOnly)
      ->read(tensor::whole(the_case.candidate.view->shape), recorded);
  const trace::NormedParts parts(the_case.related->candidate_run().manifest());
  const auto of_norm = parts.part_of(key.step, key.name);
  if (!of_norm) return {};
  const NormedGradients normed{key.step, *of_norm};
  const auto all = norm_of_all(*the_case.related, normed);
  if (!all || !std::isfinite(recorded[0])) return {};
  std::optional<PartNorm> best;
  std::vector<PartNorm> all_parts = norms_of_parts(*the_case.related, normed);
  const auto tried = static_cast<double>(all_parts.size());
  for (PartNorm& part : all_parts) {
    const double off = std::abs(part.norm - recorded[0]);
    if (!best || off < std::abs(best->norm - recorded[0])) best = std::move(part);
  }
  if (!best) return {};
  const double left = std::abs(best->norm - recorded[0]);
  const double error = std::abs(*all - recorded[0]);
  // One number is near one of many by chance.
  const double most = std::min(kMostLeftOfNorm, kMostLeft / tried) * error;
  if (left > kMostOffNorm * recorded[0] || !(left <= most)) {
    reject(the_case, "local_norm", left);
    return {};
  }
  return {cause_of(the_case, "local_norm", "",
                   {"it is the norm of {part}, {norm_of_part}, and not of all, {norm}",
                    {{"part", best->words},
                     {"norm_of_part", base::nine_digits(best->norm)},
                     {"norm", base::nine_digits(*all)}}},
                   left / *all)};
}

}  // namespace ttrace::localize
