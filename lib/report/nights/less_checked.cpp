#include "report/nights/less_checked.h"

#include <algorithm>
#include <cstdint>

#include "base/message.h"
#include "comparison/coverage.h"

namespace ttrace::report {
namespace {

using base::render;
using trace::Kind;

// What was checked in the older report, and how much of it is not in the newer one.
struct Checked {
  std::uint64_t before = 0;
  std::uint64_t lost = 0;
  std::string first_lost;

  void add(const Checked& other) {
    if (first_lost.empty()) first_lost = other.first_lost;
    before += other.before;
    lost += other.lost;
  }
};

using CheckedByKind = std::map<Kind, Checked>;

CheckedByKind by_tensors(const Night& older, const Night& newer) {
  CheckedByKind kinds;
  for (const NightTensor& was : older.tensors) {
    if (was.fate == Fate::kUnchecked || !was.kind) continue;
    const NightTensor* const is = newer.find(was.id);
    // Neither run has a tensor any more that only the candidate had.
    if (is == nullptr && was.outcome == "extra") continue;
    const bool lost = is == nullptr || is->fate == Fate::kUnchecked;
    kinds[*was.kind].add({1, lost ? 1U : 0U, lost ? was.id : ""});
  }
  return kinds;
}

std::uint64_t fewer(std::uint64_t before, std::uint64_t now) {
  return before - std::min(before, now);
}

CheckedByKind by_counts(const Night& older, const Night& newer) {
  CheckedByKind kinds;
  for (const auto& [kind, before] : *older.checked_of_kind) {
    const auto found = newer.checked_of_kind->find(kind);
    const std::uint64_t now = found == newer.checked_of_kind->end() ? 0 : found->second;
    const std::uint64_t lost = fewer(before, now);
    kinds[kind].add({before, lost, lost > 0 ? std::string(kind_name(kind)) : ""});
  }
  return kinds;
}

Checked sum_over(CheckedByKind& kinds, std::initializer_list<Kind> of) {
  Checked sum;
  for (const Kind kind : of) sum.add(kinds[kind]);
  return sum;
}

std::string describe_lost(const Night& older, const Night& newer, const Checked& part,
                          std::string_view noun) {
  return render(
      {"{newer} did not check {lost} of the {before} {noun} that {older} checked[, the "
       "first is {first}]",
       {{"newer", newer.file},
        {"lost", part.lost},
        {"before", part.before},
        {"noun", std::string(noun)},
        {"older", older.file},
        {"first", part.first_lost}}});
}

}  // namespace

std::string less_checked(const Night& older, const Night& newer) {
  CheckedByKind kinds;
  if (older.whole && newer.whole) {
    kinds = by_tensors(older, newer);
  } else if (older.checked_of_kind && newer.checked_of_kind) {
    kinds = by_counts(older, newer);
  }
  const Checked alone = sum_over(kinds, {Kind::kLoss, Kind::kGradNorm, Kind::kParam});
  if (alone.lost > 0) {
    return describe_lost(older, newer, alone, "losses, gradient norms and parameters");
  }
  for (const auto& [kind, noun] : {std::pair(Kind::kMainGrad, "main gradients"),
                                   {Kind::kParamAfterStep, "updated parameters"}}) {
    const Checked& part = kinds[kind];
    if (comparison::are_too_many_gradients(part.lost, part.before)) {
      return describe_lost(older, newer, part, noun);
    }
  }
  Checked step;
  for (const auto& [kind, part] : kinds) {
    if (comparison::is_computed(kind)) step.add(part);
  }
  if (kinds.empty() && older.checked && newer.checked) {
    step = {*older.checked, fewer(*older.checked, *newer.checked), ""};
  }
  if (!comparison::are_most(step.lost, step.before)) return "";
  return describe_lost(older, newer, step, "tensors of the step");
}

}  // namespace ttrace::report
