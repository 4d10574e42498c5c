#include "trace/normed_parts.h"

namespace ttrace::trace {

NormedParts::NormedParts(const Manifest& manifest) {
  for (const OptimizerGroup& group : manifest.optimizer) {
    const InStep part{group.step, group.clipped_by};
    if (const auto limit = group.numbers.find("clip_norm");
        limit != group.numbers.end() && limit->second > 0) {
      limits_.emplace(part, limit->second);
    }
    if (group.clipped_by.empty()) continue;
    parts_.insert(part);
    for (const std::string& name : group.params) {
      part_of_parameter_.emplace(InStep{group.step, name}, group.clipped_by);
    }
  }
}

std::optional<std::string> NormedParts::part_of(std::uint64_t step, const std::string& norm) const {
  if (parts_.contains({step, norm})) return norm;
  return norm == "grad_norm" ? std::optional<std::string>("") : std::nullopt;
}

std::string NormedParts::part_with(std::uint64_t step, const std::string& parameter) const {
  const auto found = part_of_parameter_.find({step, parameter});
  return found == part_of_parameter_.end() ? "" : found->second;
}

bool NormedParts::counts(std::uint64_t step, const std::string& part,
                         const std::string& parameter) const {
  return part.empty() || part_with(step, parameter) == part;
}

std::optional<double> NormedParts::limit(std::uint64_t step, const std::string& part) const {
  const auto found = limits_.find({step, part});
  return found == limits_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace ttrace::trace
