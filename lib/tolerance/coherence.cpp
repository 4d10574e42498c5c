#include "tolerance/coherence.h"

#include <algorithm>
#include <cmath>

namespace ttrace::tolerance {
namespace {

constexpr double kOfKind = 8;  // tensors that the kind's own mean counts for

}  // namespace

std::string name_pattern(std::string_view name) {
  std::string pattern;
  std::size_t start = 0;
  while (start <= name.size()) {
    const std::size_t stop = std::min(name.find('.', start), name.size());
    const std::string_view part = name.substr(start, stop - start);
    const bool number = !part.empty() && std::all_of(part.begin(), part.end(),
                                                     [](char c) { return c >= '0' && c <= '9'; });
    if (start > 0) pattern += '.';
    pattern += number ? std::string_view("*") : part;
    start = stop + 1;
  }
  return pattern;
}

void Coherence::add(const trace::TensorKey& key, double coherence, std::uint64_t elements) {
  if (!std::isfinite(coherence)) return;
  const double square = std::min(1.0, coherence * coherence);
  Mean& alike = alike_[{key.kind, name_pattern(key.name)}];
  alike.sum += square;
  ++alike.count;
  if (elements < kFewestForScale) return;
  Mean& kind = kinds_[key.kind];
  kind.sum += square;
  ++kind.count;
}

std::optional<double> Coherence::of(const trace::TensorKey& key) const {
  const auto kind = kinds_.find(key.kind);
  if (kind == kinds_.end()) return std::nullopt;
  Mean mean{kOfKind * kind->second.sum / kind->second.count, kOfKind};
  const auto alike = alike_.find({key.kind, name_pattern(key.name)});
  if (alike != alike_.end()) {
    mean.sum += alike->second.sum;
    mean.count += alike->second.count;
  }
  return std::sqrt(mean.sum / mean.count);
}

}  // namespace ttrace::tolerance
