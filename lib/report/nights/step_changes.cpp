#include "report/nights/step_changes.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/text.h"
#include "report/nights/diff.h"

namespace ttrace::report {
namespace {

using base::concat;

// An id is "3/-/loss/loss/0/0", or "setting:3/lr/fc.weight": the place of its step.
std::pair<std::size_t, std::size_t> step_in(const std::string& id) {
  const std::size_t slash = std::min(id.find('/'), id.size());
  const std::size_t colon = id.find(':');
  const std::size_t begin = colon < slash ? colon + 1 : 0;
  return {begin, slash - begin};
}

std::string of_any_step(const std::string& id) {
  const auto [begin, length] = step_in(id);
  return concat(id.substr(0, begin), "*", id.substr(begin + length));
}

// Keeps only the tensors of the step, and takes the step out of their ids, so that the ids of two
// steps are equal.
void forget_the_step(std::uint64_t step, Night& night) {
  const std::string number = concat(step);
  std::erase_if(night.tensors, [&number](const NightTensor& tensor) {
    const auto [begin, length] = step_in(tensor.id);
    return tensor.id.compare(begin, length, number) != 0;
  });
  night.index_of.clear();
  for (std::size_t i = 0; i < night.tensors.size(); ++i) {
    night.tensors[i].id = of_any_step(night.tensors[i].id);
    night.index_of.emplace(night.tensors[i].id, i);
  }
  for (NightFinding& finding : night.findings) {
    finding.id = of_any_step(finding.id);
    for (std::string& member : finding.members) member = of_any_step(member);
  }
}

std::string describe_changes(const NightDiff& diff) {
  std::string text;
  const auto add = [&text](std::size_t count, std::string what) {
    if (count == 0) return;
    std::replace(what.begin(), what.end(), '_', ' ');
    text += concat(text.empty() ? "" : ", ", count, " ", what);
  };
  for (const Change change : kAllChanges) {
    add(diff.of(change).size(), std::string(change_name(change)));
  }
  add(diff.diverged_in_both, "diverged in both");
  return text.empty() ? "nothing changed" : text;
}

}  // namespace

std::string StepChanges::add(std::uint64_t step, const answer::Answer& answer) {
  Night night = night_of(answer, concat("step ", step));
  forget_the_step(step, night);
  if (!before_) {
    before_ = std::move(night);
    return "";
  }
  NightDiff diff = diff_nights(*std::move(before_), std::move(night));
  std::string text = concat(describe_changes(diff), " since ", diff.older.file);
  before_ = std::move(diff.newer);
  return text;
}

}  // namespace ttrace::report
