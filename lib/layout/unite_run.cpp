#include "layout/unite_run.h"

#include <algorithm>
#include <utility>

namespace ttrace::layout {
namespace {

template <typename Value>
bool has(const std::vector<Value>& list, const Value& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool goes_by_rows(const trace::TensorEntry& entry) {
  return entry.key.kind == trace::Kind::kIndex ||
         std::any_of(entry.placements.begin(), entry.placements.end(), [](const auto& placement) {
           return std::holds_alternative<trace::Rows>(placement.second);
         });
}

// Without what `other` lacks.
template <typename Value>
void keep_common(std::vector<Value>& list, const std::vector<Value>& other) {
  std::erase_if(list, [&other](const Value& value) { return !has(other, value); });
}

void add_modules(const trace::Recorded& one, trace::Recorded& whole) {
  if (!one.modules) whole.modules.reset();
  if (!whole.modules) return;
  for (const std::string& pattern : *one.modules) {
    if (!has(*whole.modules, pattern)) whole.modules->push_back(pattern);
  }
}

}  // namespace

void RunUnion::add(std::uint64_t rank, trace::RunFacts facts) {
  unfinished_.insert(facts.unfinished.begin(), facts.unfinished.end());
  if (facts.recorded) recorded_.emplace(rank, *facts.recorded);
  if (ranks_++ == 0) first_ = std::move(facts);
}

bool RunUnion::asked(std::uint64_t rank, const trace::TensorEntry& entry) const {
  const auto told = recorded_.find(rank);
  if (told == recorded_.end() || unfinished_.contains(rank) || goes_by_rows(entry)) return false;
  return has(told->second.kinds, entry.key.kind) && has(told->second.steps, entry.key.step);
}

trace::RunFacts RunUnion::facts() const {
  trace::RunFacts whole = first_;
  whole.unfinished.assign(unfinished_.begin(), unfinished_.end());
  whole.recorded.reset();
  if (recorded_.size() < ranks_) return whole;
  const bool any_records = std::any_of(recorded_.begin(), recorded_.end(),
                                       [](const auto& one) { return !one.second.kinds.empty(); });
  for (const auto& [rank, one] : recorded_) {
    // A rank that was told to record nothing takes nothing from the others.
    if (any_records && one.kinds.empty()) continue;
    if (!whole.recorded) whole.recorded = one;
    keep_common(whole.recorded->kinds, one.kinds);
    keep_common(whole.recorded->steps, one.steps);
    add_modules(one, *whole.recorded);
  }
  return whole;
}

}  // namespace ttrace::layout
