#include "report/nights/diff.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "report/nights/less_checked.h"
#include "report/nights/otherwise.h"
#include "report/screen.h"

namespace ttrace::report {
namespace {

using base::concat;

constexpr const char* kAbsent = "absent";
constexpr const char* kNotListed = "not listed";
constexpr std::size_t kMostOfHeadline = 120;  // characters of a report's headline that are quoted
constexpr std::string_view kSkipped = "skipped_by_rule";

std::vector<ChangedTensor>& list_of(Change change, NightDiff& diff) {
  return diff.tensors[static_cast<std::size_t>(change)];
}

double or_infinite(double used) {
  return std::isnan(used) ? std::numeric_limits<double>::infinity() : used;
}

void add_change(const NightTensor* older, const NightTensor* newer, Change change,
                NightDiff& diff) {
  const NightTensor& known = newer != nullptr ? *newer : *older;
  const auto outcome = [](const NightTensor* tensor, const Night& night) {
    return tensor != nullptr ? tensor->outcome : std::string(night.whole ? kAbsent : kNotListed);
  };
  list_of(change, diff)
      .push_back({known.id, outcome(older, diff.older), outcome(newer, diff.newer),
                  older != nullptr ? older->used : std::nullopt,
                  newer != nullptr ? newer->used : std::nullopt});
}

Change newly(const NightTensor& tensor) {
  return tensor.known ? Change::kNewlyKnown : Change::kNewlyDiverged;
}

void compare_both(const NightTensor& older, const NightTensor& newer, const Otherwise& otherwise,
                  NightDiff& diff) {
  ++diff.in_common;
  const auto add = [&](Change change) { add_change(&older, &newer, change, diff); };
  if (newer.fate == Fate::kWrong && older.fate != Fate::kWrong) return add(newly(newer));
  if (newer.fate == Fate::kWrong && older.known && !newer.known) {
    return add(Change::kNewlyDiverged);
  }
  if (newer.fate == Fate::kUnchecked) {
    if (older.fate != Fate::kUnchecked) add(Change::kUnchecked);
    return;
  }
  if (older.fate == Fate::kWrong && newer.fate == Fate::kRight) return add(Change::kHealed);
  if (older.fate != newer.fate) return;  // checked now
  if (newer.fate == Fate::kWrong) {
    ++diff.diverged_in_both;
    std::string why = newer.known ? "" : otherwise.why(older, newer);
    if (!why.empty()) {
      add(Change::kOtherwise);
      list_of(Change::kOtherwise, diff).back().why = std::move(why);
      return;
    }
  }
  if (!older.used || !newer.used) return;
  const double before = or_infinite(*older.used);
  const double now = or_infinite(*newer.used);
  if (rose(before, now)) return add(Change::kWorse);
  if (rose(now, before)) return add(Change::kBetter);
}

bool is_setting(const NightTensor& tensor) { return tensor.id.starts_with("setting:"); }

void compare_new(const NightTensor& newer, NightDiff& diff) {
  const auto add = [&](Change change) { add_change(nullptr, &newer, change, diff); };
  if (newer.fate == Fate::kWrong) {
    // A report of findings alone lists all findings but no tensors downstream of them. A tensor
    // that is downstream now may have been downstream before.
    const bool untold = !diff.older.whole && !newer.in_finding;
    return add(untold ? Change::kUntold : newly(newer));
  }
  if (diff.older.whole) add(Change::kAppeared);
}

void compare_old(const NightTensor& older, NightDiff& diff) {
  const auto add = [&](Change change) { add_change(&older, nullptr, change, diff); };
  // Settings that are alike are listed nowhere.
  if (is_setting(older) && diff.newer.command != "localize") return add(Change::kHealed);
  if (diff.newer.whole) return add(Change::kVanished);
  if (older.fate == Fate::kWrong) add(Change::kUntold);
}

void compare_tensors(NightDiff& diff) {
  const Otherwise otherwise(diff.older, diff.newer);
  for (const NightTensor& newer : diff.newer.tensors) {
    const NightTensor* const older = diff.older.find(newer.id);
    if (older == nullptr) {
      compare_new(newer, diff);
    } else {
      compare_both(*older, newer, otherwise, diff);
    }
  }
  for (const NightTensor& older : diff.older.tensors) {
    if (diff.newer.find(older.id) == nullptr) compare_old(older, diff);
  }
}

// The finding of `others` that shares most of `members`; null if none shares any.
const NightFinding* most_alike(const std::vector<std::string>& members,
                               const std::map<std::string, const NightFinding*>& others) {
  std::map<const NightFinding*, std::size_t> shared;
  const NightFinding* most = nullptr;
  for (const std::string& member : members) {
    const auto other = others.find(member);
    if (other == others.end()) continue;
    const std::size_t count = ++shared[other->second];
    if (most == nullptr || count > shared[most]) most = other->second;
  }
  return most;
}

std::map<std::string, const NightFinding*> by_member(const Night& night) {
  std::map<std::string, const NightFinding*> found;
  for (const NightFinding& finding : night.findings) {
    for (const std::string& member : finding.members) found.emplace(member, &finding);
  }
  return found;
}

void compare_findings(NightDiff& diff) {
  const auto ids_of = [&diff](Change change) {
    std::set<std::string> ids;
    for (const ChangedTensor& tensor : diff.of(change)) ids.insert(tensor.id);
    return ids;
  };
  const std::set<std::string> newly = ids_of(Change::kNewlyDiverged);
  const std::set<std::string> otherwise = ids_of(Change::kOtherwise);
  const auto older = by_member(diff.older);
  for (const NightFinding& finding : diff.newer.findings) {
    ChangedFinding changed{FindingStatus::kSame, finding.id, finding.headline,
                           finding.members.size()};
    for (const std::string& member : finding.members) {
      changed.newly_diverged += newly.contains(member) ? 1 : 0;
      changed.otherwise += otherwise.contains(member) ? 1 : 0;
    }
    const NightFinding* const before = most_alike(finding.members, older);
    if (before != nullptr) {
      changed.before = before->id;
      if (changed.otherwise > 0) changed.status = FindingStatus::kChanged;
    } else {
      changed.status = changed.newly_diverged > 0 ? FindingStatus::kNew : FindingStatus::kUncovered;
    }
    diff.findings.push_back(std::move(changed));
  }
  const auto newer = by_member(diff.newer);
  for (const NightFinding& finding : diff.older.findings) {
    if (most_alike(finding.members, newer) != nullptr) continue;
    const bool healed = std::all_of(
        finding.members.begin(), finding.members.end(), [&diff](const std::string& member) {
          const NightTensor* const now = diff.newer.find(member);
          if (now != nullptr) return now->fate == Fate::kRight;
          return member.starts_with("setting:") && diff.newer.command != "localize";
        });
    diff.findings.push_back({healed ? FindingStatus::kHealed : FindingStatus::kGone, finding.id,
                             finding.headline, finding.members.size()});
  }
}

void compare_circumstances(NightDiff& diff) {
  const auto value_of = [](const Night& night, const std::string& what) {
    for (const auto& [name, value] : night.circumstances) {
      if (name == what) return value;
    }
    return std::string();
  };
  for (const auto& [what, now] : diff.newer.circumstances) {
    const std::string before = value_of(diff.older, what);
    if (before != now) diff.circumstances.push_back({what, before, now});
  }
  for (const auto& [what, before] : diff.older.circumstances) {
    const bool told = std::any_of(diff.newer.circumstances.begin(), diff.newer.circumstances.end(),
                                  [&](const auto& one) { return one.first == what; });
    if (!told) diff.circumstances.push_back({what, before, ""});
  }
}

void add_remarks(NightDiff& diff) {
  const std::uint64_t most = std::max(diff.older.tensors.size(), diff.newer.tensors.size());
  if (diff.older.whole && diff.newer.whole && 2 * diff.in_common < most) {
    diff.remarks.push_back(concat("the reports look like those of two jobs: ", diff.in_common,
                                  " of ", base::plural(most, "tensor"), " in common"));
  }
  for (const Night* night : {&diff.older, &diff.newer}) {
    if (night->whole) continue;
    diff.remarks.push_back(
        concat(night->file,
               night->command == "localize"
                   ? " lists findings alone"
                   : " has the tensors of findings alone (--json-detail findings)",
               ", so what became of others cannot be said"));
  }
  if (diff.older.verdict == "inconclusive") {
    diff.remarks.push_back(concat(
        diff.older.file, " is inconclusive: ", cut_at_word(diff.older.headline, kMostOfHeadline)));
  }
}

// The number of tensors that were wrong and that the newer report did not check, though no rule
// skipped them. An "extra" tensor that has vanished does not count: neither run has it now.
std::uint64_t lost_from_sight(const NightDiff& diff) {
  std::uint64_t lost = 0;
  for (const Change change : {Change::kUnchecked, Change::kVanished}) {
    for (const ChangedTensor& tensor : diff.of(change)) {
      const NightTensor* const before = diff.older.find(tensor.id);
      if (before->fate != Fate::kWrong || tensor.is == kSkipped) continue;
      lost += change == Change::kVanished && tensor.was == "extra" ? 0 : 1;
    }
  }
  return lost;
}

void decide_on_news(NightDiff& diff) {
  if (!diff.of(Change::kNewlyDiverged).empty() || !diff.of(Change::kOtherwise).empty() ||
      !diff.newer.expired.empty()) {
    diff.exit_code = 1;
    return;
  }
  const bool joined = diff.in_common > 0 || !diff.older.whole || !diff.newer.whole;
  if (!joined) {
    diff.why = concat("the reports have no tensor in common (", diff.older.tensors.size(),
                      " in the older one, ", diff.newer.tensors.size(), " in the newer one)");
  } else if (diff.newer.verdict == "inconclusive") {
    diff.why = concat("nothing newly diverged, but the newer report is inconclusive: ",
                      cut_at_word(diff.newer.headline, kMostOfHeadline));
  } else if (const std::string less = less_checked(diff.older, diff.newer); !less.empty()) {
    diff.why = concat("nothing newly diverged, but ", less);
  } else if (const std::uint64_t lost = lost_from_sight(diff); lost > 0) {
    diff.why =
        concat("nothing newly diverged, but ", base::plural(lost, "tensor"), " that had diverged ",
               lost == 1 ? "was" : "were", " not checked in the newer report or ",
               lost == 1 ? "is" : "are", " not in it");
  }
  diff.exit_code = diff.why.empty() ? 0 : 3;
}

}  // namespace

std::string_view change_name(Change change) {
  constexpr std::array<std::string_view, kAllChanges.size()> kNames{
      "newly_diverged", "diverged_otherwise", "newly_known", "healed",   "worse",
      "better",         "no_longer_checked",  "vanished",    "appeared", "untold"};
  return kNames.at(static_cast<std::size_t>(change));
}

std::string_view status_name(FindingStatus status) {
  constexpr std::array<std::string_view, 6> kNames{"new",       "same",   "changed",
                                                   "uncovered", "healed", "gone"};
  return kNames.at(static_cast<std::size_t>(status));
}

std::string_view NightDiff::verdict() const {
  return exit_code == 0 ? "nothing new" : exit_code == 1 ? "new" : "inconclusive";
}

std::string NightDiff::headline() const {
  std::string text = why;
  const std::size_t wrong = of(Change::kNewlyDiverged).size();
  if (wrong > 0) {
    text = concat(base::plural(wrong, "tensor"), " newly diverged");
    const auto first = std::find_if(findings.begin(), findings.end(),
                                    [](const auto& finding) { return finding.newly_diverged > 0; });
    text += concat(
        ": ", first != findings.end() ? first->headline : of(Change::kNewlyDiverged).front().id);
  } else if (why.empty() && of(Change::kOtherwise).empty()) {
    text = "no tensor newly diverged";
  }
  if (const auto& otherwise = of(Change::kOtherwise); !otherwise.empty()) {
    text += concat(text.empty() ? "" : "; ", base::plural(otherwise.size(), "tensor"),
                   " diverged in another way than before: ", otherwise.front().id, ": ",
                   otherwise.front().why);
  }
  if (!newer.expired.empty()) {
    text += concat("; ", base::plural(newer.expired.size(), "known difference"),
                   " expired: ", newer.expired.front());
  }
  if (diverged_in_both > 0) text += concat("; ", diverged_in_both, " diverged in both");
  for (const Change change : {Change::kNewlyKnown, Change::kHealed, Change::kWorse, Change::kBetter,
                              Change::kUnchecked, Change::kVanished, Change::kUntold}) {
    if (of(change).empty()) continue;
    std::string name(change_name(change));
    std::replace(name.begin(), name.end(), '_', ' ');
    text += concat("; ", of(change).size(), " ", name);
  }
  return text;
}

NightDiff diff_nights(Night older, Night newer) {
  if (older.command != newer.command) {
    throw base::input_error(newer.file, ": is a report of `ttrace ", newer.command, "`, and ",
                            older.file, " one of `ttrace ", older.command,
                            "`; give two of one command");
  }
  NightDiff diff;
  diff.older = std::move(older);
  diff.newer = std::move(newer);
  compare_tensors(diff);
  compare_findings(diff);
  compare_circumstances(diff);
  add_remarks(diff);
  decide_on_news(diff);
  return diff;
}

}  // namespace ttrace::report
