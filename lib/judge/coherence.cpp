#include "judge/coherence.h"

#include <algorithm>
#include <cmath>

namespace ttrace::judge {
namespace {

constexpr double kOfKind = 8;  // the number of tensors that the mean of the kind counts as

}  // namespace

std::string name_pattern(std::string_view name) {
  std::string pattern;
  std::size_t start = 0;
  while (start <= name.size()) {
    const std::size_t stop = std::min(name.find('.', start), name.size());
    const std::string_view component = name.substr(start, stop - start);
    const bool number =
        !component.empty() && std::all_of(component.begin(), component.end(),
                                          [](char c) { return c >= '0' && c <= '9'; });
    if (start > 0) pattern += '.';
    pattern += number ? std::string_view("*") : component;
    start = stop + 1;
  }
  return pattern;
}

void Coherence::add(const trace::TensorKey& key, const std::vector<double>& coherence,
                    std::uint64_t elements) {
  const std::string pattern = name_pattern(key.name);
  for (std::size_t which = 0; which < coherence.size(); ++which) {
    if (!std::isfinite(coherence[which])) continue;
    if (which > 0 && coherence[which] == 0) continue;
    const double square = std::min(1.0, coherence[which] * coherence[which]);
    Mean& alike = alike_[{key.kind, pattern, which}];
    alike.sum += square;
    ++alike.count;
    if (elements < kFewestForScale) continue;
    Mean& kind = kinds_[{key.kind, std::min<std::size_t>(which, 1)}];
    kind.sum += square;
    ++kind.count;
  }
}

std::vector<double> Coherence::of(const trace::TensorKey& key, std::size_t dims) const {
  if (key.kind == trace::Kind::kOptimizerState || !kinds_.contains({key.kind, 0})) return {};
  const std::string pattern = name_pattern(key.name);
  std::vector<double> found;
  for (std::size_t which = 0; which <= dims; ++which) {
    Mean mean;
    const auto kind = kinds_.find({key.kind, std::min<std::size_t>(which, 1)});
    if (kind != kinds_.end()) mean = {kOfKind * kind->second.sum / kind->second.count, kOfKind};
    const auto alike = alike_.find({key.kind, pattern, which});
    if (alike != alike_.end()) {
      mean.sum += alike->second.sum;
      mean.count += alike->second.count;
    }
    found.push_back(mean.count > 0 ? std::sqrt(mean.sum / mean.count) : 0);
  }
  return found;
}

}  // namespace ttrace::judge
