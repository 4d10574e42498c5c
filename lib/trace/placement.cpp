#include "trace/placement.h"

namespace ttrace::trace {

std::string to_string(const Placement& placement) {
  return std::visit([](const auto& kind) { return kind.describe(); }, placement);
}

std::string describe_exactly(const Placement& placement) {
  return std::visit([](const auto& kind) { return kind.describe() + kind.describe_numbers(); },
                    placement);
}

std::string describe_over(const Placement& placement, const std::string& axis) {
  return std::visit([&](const auto& kind) { return kind.describe_over(axis); }, placement);
}

std::string json_text(const Placement& placement) {
  return std::visit([](const auto& kind) { return kind.json(); }, placement);
}

Sharing sharing(const Placement& placement) {
  return std::visit([](const auto& kind) { return kind.kSharing; }, placement);
}

bool cuts(const Placement& placement) { return sharing(placement) == Sharing::kShards; }

std::optional<std::uint64_t> cut_dimension(const Placement& placement) {
  return std::visit([](const auto& kind) { return kind.dimension(); }, placement);
}

bool gives_extents(const Placement& placement) {
  return std::visit([](const auto& kind) { return kind.gives_extents(); }, placement);
}

std::optional<std::string> misfit(const Placement& placement, const PlacedTensor& tensor) {
  return std::visit([&](const auto& kind) { return kind.misfit(tensor); }, placement);
}

void require_fitting_lists(const Placement& placement, std::uint64_t count) {
  std::visit([count](const auto& kind) { kind.require_lists_for(count); }, placement);
}

void apply_cut(const Placement& placement, std::uint64_t count, std::uint64_t index,
               std::vector<tensor::Ranges>& held) {
  require_fitting_lists(placement, count);
  std::visit([&](const auto& kind) { kind.cut(count, index, held); }, placement);
}

}  // namespace ttrace::trace
