#include "judge/calibration.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/bytes.h"
#include "base/text.h"
#include "layout/map_rules.h"

namespace ttrace::judge {
namespace {

constexpr std::uint64_t kMostCells = 256;           // per tensor: 16 × 16
constexpr std::uint64_t kSmallestBudget = 2000000;  // bytes that a calibration may always take
constexpr std::uint64_t kBytesPerTensor = 290;      // key, norms and punctuation, measured
constexpr std::uint64_t kBytesPerCell = 6;

}  // namespace

GridPlan::GridPlan(const std::vector<trace::TensorEntry>& tensors) {
  double bytes = 0;
  for (const trace::TensorEntry& entry : tensors) {
    bytes += static_cast<double>(tensor::byte_count(entry.shape, entry.dtype).value_or(0));
  }
  const double budget = std::max(static_cast<double>(kSmallestBudget), bytes / 1000) -
                        static_cast<double>(tensors.size() * kBytesPerTensor);
  for (most_cells_ = kMostCells; most_cells_ > 1; most_cells_ /= 2) {
    double cells = 0;
    for (const trace::TensorEntry& entry : tensors) {
      if (!tensor::is_floating(entry.dtype)) continue;
      const std::uint64_t elements = tensor::element_count(entry.shape).value_or(0);
      cells += static_cast<double>(
          std::clamp<std::uint64_t>(elements / measure::Grid::kSmallestCell, 1, most_cells_));
    }
    if (cells * static_cast<double>(kBytesPerCell) <= budget) return;
  }
}

measure::Grid GridPlan::grid_for(const tensor::Shape& shape) const {
  return measure::Grid::over(shape, most_cells_);
}

std::optional<std::size_t> rule_for(const Policy& policy, const trace::TensorKey& key) {
  for (std::size_t i = 0; i < policy.size(); ++i) {
    const PolicyRule& rule = policy[i];
    const bool named =
        std::any_of(rule.names.begin(), rule.names.end(),
                    [&key](const std::string& name) { return base::glob_match(name, key.name); });
    if (named && layout::is_of(rule.kinds, key.kind)) return i;
  }
  return std::nullopt;
}

bool skips(const PolicyRule& rule, const std::string& today) {
  // ISO dates sort as text.
  return !rule.skip.empty() && (rule.until.empty() || today <= rule.until);
}

bool is_date(const std::string& text) {
  static constexpr std::string_view kShape = "dddd-dd-dd";
  if (text.size() != kShape.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kShape[i] == 'd' ? !digit : text[i] != '-') return false;
  }
  const auto number = [&text](std::size_t at, std::size_t size) {
    return std::stoi(text.substr(at, size));
  };
  return std::chrono::year_month_day(std::chrono::year(number(0, 4)),
                                     std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                     std::chrono::day(static_cast<unsigned>(number(8, 2))))
      .ok();
}

}  // namespace ttrace::judge
