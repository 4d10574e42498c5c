#include "engine/left_out.h"

#include "base/concat.h"
#include "base/number_text.h"

namespace ttrace::engine {
namespace {

const layout::DroppedBy* rule_of(const DroppedTensors& dropped, const layout::ViewPtr& view) {
  if (view == nullptr) return nullptr;
  const auto found = dropped.find(view->key);
  return found == dropped.end() ? nullptr : &found->second;
}

// The tensors that one rule drops.
struct Tally {
  report::DroppedTensors told;
  std::uint64_t in_both = 0;
};

}  // namespace

void mark_dropped(const DroppedTensors& of_reference, const DroppedTensors& of_candidate,
                  std::vector<Pair>& pairs, report::CompareReport& out) {
  if (of_reference.empty() && of_candidate.empty()) return;
  std::map<std::pair<bool, std::size_t>, Tally> rules;  // the reference's first
  const auto add = [&](bool candidates, const layout::DroppedBy* rule, Pair& pair) {
    if (rule == nullptr) return;
    pair.dropped = base::concat("map:", rule->pointer, ": ", rule->reason);
    Tally& tally = rules[{candidates, rule->rule}];
    tally.told.rule = rule->pointer;
    tally.told.reason = rule->reason;
    ++tally.told.tensors;
    if (pair.reference != nullptr && pair.candidate != nullptr) ++tally.in_both;
  };
  for (Pair& pair : pairs) {
    add(false, rule_of(of_reference, pair.reference), pair);
    add(true, rule_of(of_candidate, pair.candidate), pair);
  }
  for (const auto& [rule, tally] : rules) {
    out.dropped.push_back(tally.told);
    if (tally.in_both == 0) continue;
    out.warnings.push_back(base::concat(out.map_rules, ": ", tally.told.rule, " drops ",
                                        base::plural(tally.in_both, "tensor"),
                                        " that both traces have, and that are not compared now"));
  }
}

report::LeftOut left_out_of(const std::vector<Pair>& pairs,
                            const std::vector<report::Result>& results) {
  report::LeftOut left_out;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (!results[i].left_out) continue;
    ++(pairs[i].candidate == nullptr ? left_out.of_reference : left_out.of_candidate);
  }
  return left_out;
}

}  // namespace ttrace::engine
