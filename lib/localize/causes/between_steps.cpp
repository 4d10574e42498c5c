#include <map>
#include <set>

#include "base/text.h"
#include "layout/mesh.h"
#include "layout/view.h"
#include "localize/causes/trial.h"

namespace ttrace::localize {
namespace {

// The tensor of the candidate's step before that has these very values, and another name that ends
// with this one's: an average of the weights that was left in the model. Empty without one.
std::string taken_from(const Case& the_case) {
  const trace::TensorKey& key = the_case.result->key;
  const std::string ending = base::concat(".", key.name);
  for (const auto* record :
       the_case.related->alike(trace::Kind::kBufferAfterStep, the_case.result->shape)) {
    if (record->key.step + 1 != key.step || !record->key.name.ends_with(ending)) continue;
    const measure::TensorRef other = the_case.related->candidate(*record);
    if (other.source == nullptr) continue;
    const auto distance = distance_from(the_case, other, the_case.candidate);
    if (distance && *distance == 0) return record->key.name;
  }
  return "";
}

// Whether the reference has main gradients in the step, and none of this parameter.
bool lacks_gradient(const Case& the_case) {
  const trace::TensorKey& key = the_case.result->key;
  bool any = false;
  for (const auto* record : the_case.related->of_kind(trace::Kind::kMainGrad)) {
    if (record->key.step != key.step || record->reference == nullptr) continue;
    if (record->key.name == key.name) return false;
    any = true;
  }
  return any;
}

}  // namespace

std::vector<Cause> find_changed_between_steps(const Case& the_case) {
  if (the_case.related == nullptr || the_case.result == nullptr) return {};
  const trace::TensorKey& key = the_case.result->key;
  const bool is_parameter = key.kind == trace::Kind::kParam;
  if ((!is_parameter && key.kind != trace::Kind::kBuffer) || key.step == 0) return {};
  const trace::Kind left =
      is_parameter ? trace::Kind::kParamAfterStep : trace::Kind::kBufferAfterStep;
  for (const auto* record : the_case.related->alike(left, the_case.result->shape)) {
    if (record->key.name != key.name || record->key.step + 1 != key.step) continue;
    if (record->candidate == nullptr || record->reference == nullptr) continue;
    const auto kept =
        distance_from(the_case, the_case.related->reference(*record), the_case.reference);
    const auto moved =
        distance_from(the_case, the_case.related->candidate(*record), the_case.candidate);
    if (!kept || *kept > 0 || !moved || *moved == 0) return {};
    const std::string taken = taken_from(the_case);
    base::Message evidence{"it is not what step {left_by} left[, but bit for bit {taken_from}]",
                           {{"left_by", key.step - 1}}};
    if (!taken.empty()) {
      evidence.values.emplace_back(
          "taken_from", base::render({"what it left in {average}", {{"average", taken}}}));
    }
    return {cause_of(the_case, "changed_between_steps", "", evidence, 0)};
  }
  return {};
}

std::vector<Cause> find_not_frozen(const Case& the_case) {
  if (the_case.related == nullptr || the_case.result == nullptr || the_case.conflict) return {};
  const trace::Kind left = the_case.result->key.kind;
  const bool is_parameter = left == trace::Kind::kParamAfterStep;
  if (!is_parameter && left != trace::Kind::kBufferAfterStep) return {};
  const auto* const before =
      record_of(the_case, is_parameter ? trace::Kind::kParam : trace::Kind::kBuffer);
  if (before == nullptr || before->candidate == nullptr || before->reference == nullptr) return {};
  // A learning rate of 0 and the rounding of a small update leave a parameter as it was, too.
  if (is_parameter && !lacks_gradient(the_case)) return {};
  const auto stayed =
      distance_from(the_case, the_case.related->reference(*before), the_case.reference);
  const auto moved =
      distance_from(the_case, the_case.related->candidate(*before), the_case.candidate);
  if (!stayed || *stayed > 0 || !moved || *moved == 0) return {};
  return {cause_of(the_case, "not_frozen", "",
                   {"the reference's is bit for bit what it was before the step, and this one "
                    "has moved",
                    {}},
                   0)};
}

std::vector<Cause> find_loss_scales(const Case& the_case) {
  if (the_case.related == nullptr || the_case.result == nullptr || !the_case.conflict) return {};
  const trace::TensorKey& key = the_case.result->key;
  if (key.kind != trace::Kind::kMainGrad) return {};
  std::map<double, std::set<std::uint64_t>> ranks;
  for (const auto* record :
       the_case.related->alike(trace::Kind::kParamGrad, the_case.result->shape)) {
    if (record->key.name != key.name || record->key.step != key.step) continue;
    const measure::TensorRef raw = the_case.related->candidate(*record);
    if (raw.source == nullptr) continue;
    for (const trace::TensorEntry* entry : layout::stored_in(*record->candidate)) {
      if (entry->scale > 0) ranks[1 / entry->scale].merge(ranks_with(raw));
    }
  }
  if (ranks.size() < 2) return {};
  const auto& [least, first] = *ranks.begin();
  std::string told;
  for (const auto& [scale, of] : ranks) {
    if (scale == least) continue;
    const std::string more =
        base::render({"{factor} times as large on {of_more}",
                      {{"factor", base::short_number(scale / least)},
                       {"of_more", layout::describe_ranks({of.begin(), of.end()})}}});
    told += base::concat(told.empty() ? "" : ", ", more);
  }
  told = base::render(
      {"{larger} as on {of_least}",
       {{"larger", told}, {"of_least", layout::describe_ranks({first.begin(), first.end()})}}});
  return {cause_of(the_case, "loss_scales", "",
                   {"the scale of the loss is {scales}", {{"scales", told}}}, 0)};
}

}  // namespace ttrace::localize
