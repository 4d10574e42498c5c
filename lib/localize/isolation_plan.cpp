#include "localize/isolation_plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "answer/audited_tensor.h"
#include "base/error.h"
#include "base/text.h"
#include "localize/isolation.h"
#include "localize/place.h"
#include "measure/logical_tensor.h"

namespace ttrace::localize {
namespace {

using trace::Kind;
using trace::TensorEntry;

constexpr std::uint64_t kPlannedSlabElements = std::uint64_t{1} << 18;

// The number among the module's tensors: 0 of "attn", 1 of "attn[1]"; named ones say it. Nothing if
// it is not known.
std::optional<std::uint64_t> index_of(const TensorEntry& entry) {
  if (entry.position) return entry.position;
  const std::string& name = entry.key.name;
  const std::size_t module = trace::module_of_value(name).size();
  if (module == name.size()) return 0;
  std::uint64_t index = 0;
  const char* const end = name.data() + name.size() - 1;  // the bracket
  const auto [stop, error] = std::from_chars(name.data() + module + 1, end, index);
  if (error != std::errc() || stop != end) return std::nullopt;
  return index;
}

// Four digits: the plan is read by people, and no result depends on the others.
double with_four_digits(double value) {
  std::array<char, 32> text{};
  const auto written =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 4);
  double shortened = 0;
  std::from_chars(text.data(), written.ptr, shortened);
  return shortened;
}

// The distribution of a tensor's values; nothing of a mask, a constant, or values that are not
// finite.
std::optional<PlannedValues> distribution_of(const trace::Source& run, const TensorEntry& entry,
                                             std::uint64_t index) {
  measure::LogicalTensor logical(run, entry);
  double sum = 0;
  double squares = 0;
  double shift = 0;
  std::uint64_t count = 0;
  bool finite = true;
  std::vector<double> different;
  std::vector<double> values;
  tensor::for_each_sub_box(
      tensor::whole(entry.shape), kPlannedSlabElements, [&](const tensor::Box& slab) {
        values.resize(tensor::volume(slab));
        logical.read(slab, values);
        if (count == 0 && !values.empty()) shift = values.front();
        for (const double value : values) {
          finite = finite && std::isfinite(value);
          sum += value - shift;
          squares += (value - shift) * (value - shift);
          ++count;
          if (different.size() <= 2 &&
              std::find(different.begin(), different.end(), value) == different.end()) {
            different.push_back(value);
          }
        }
      });
  if (!finite || different.size() <= 2) return std::nullopt;
  const double mean = sum / static_cast<double>(count);
  const double variance = squares / static_cast<double>(count) - mean * mean;
  PlannedValues found{index, with_four_digits(mean + shift),
                      with_four_digits(std::sqrt(std::max(variance, 0.0)))};
  if (!(found.std > 0) || !std::isfinite(found.std)) return std::nullopt;
  return found;
}

bool lies_in_rows(const TensorEntry& entry) {
  return std::any_of(entry.placements.begin(), entry.placements.end(), [](const auto& placed) {
    return std::holds_alternative<trace::Rows>(placed.second);
  });
}

}  // namespace

RewritingPlan isolation_plan(const trace::Source& reference, const trace::Source& candidate,
                             const std::set<std::string>& modules) {
  using KindAndName = std::pair<Kind, std::string>;
  std::map<KindAndName, const TensorEntry*> in_candidate;
  for (const TensorEntry& entry : candidate.manifest().tensors) {
    in_candidate.emplace(KindAndName(entry.key.kind, entry.key.name), &entry);
  }
  // For every value, its entry of the first step, micro-batch and call.
  std::map<KindAndName, const TensorEntry*> first;
  for (const TensorEntry& entry : reference.manifest().tensors) {
    if (entry.key.kind != Kind::kInput && entry.key.kind != Kind::kGradOutput) continue;
    if (!modules.contains(module_of(entry.key))) continue;
    const auto [known, added] = first.emplace(KindAndName(entry.key.kind, entry.key.name), &entry);
    if (!added && entry.key < known->second->key) known->second = &entry;
  }
  std::map<std::string, PlannedModule> planned;
  for (const auto& [value, entry] : first) {
    const auto other = in_candidate.find(value);
    const auto index = index_of(*entry);
    if (other == in_candidate.end() || !index || !tensor::is_floating(entry->dtype)) continue;
    if (lies_in_rows(*entry) || lies_in_rows(*other->second)) continue;
    const auto found = distribution_of(reference, *entry, *index);
    if (!found) continue;
    PlannedModule& module = planned[module_of(entry->key)];
    (entry->key.kind == Kind::kInput ? module.inputs : module.grad_outputs).push_back(*found);
  }
  RewritingPlan plan;
  for (auto& [name, module] : planned) {
    module.name = name;
    for (std::vector<PlannedValues>* values : {&module.inputs, &module.grad_outputs}) {
      std::sort(values->begin(), values->end(),
                [](const PlannedValues& a, const PlannedValues& b) { return a.index < b.index; });
      values->erase(std::unique(values->begin(), values->end(),
                                [](const PlannedValues& a, const PlannedValues& b) {
                                  return a.index == b.index;
                                }),
                    values->end());
    }
    plan.modules.push_back(std::move(module));
  }
  if (plan.modules.empty()) {
    if (modules.empty()) {
      throw base::input_error(
          "no plan: the comparison finds no module that differs; name modules with --layer");
    }
    throw base::input_error(
        "no plan: the traces record no floating-point input or output gradient of the ",
        base::plural(modules.size(), "module"),
        " to isolate; record them with TTRACE_KINDS=input,output,grad_output,param_grad");
  }
  return plan;
}

}  // namespace ttrace::localize
