#include "report/nights/diff_text.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/text.h"
#include "report/page/read_parts.h"
#include "report/screen.h"

namespace ttrace::report {
namespace {

using base::concat;

constexpr std::size_t kMostOfOne = 3;  // findings or tensors of one change on the screen

// "4 % of its tolerance" in short: a share that was and is.
std::string moved(const ChangedTensor& tensor) {
  if (!tensor.why.empty()) return tensor.why;
  if (!tensor.used_before || !tensor.used_now) {
    return concat(words(tensor.was), " → ", words(tensor.is));
  }
  const std::string used = concat("used ", base::short_number(*tensor.used_before), " → ",
                                  base::short_number(*tensor.used_now));
  return tensor.was == tensor.is ? used
                                 : concat(words(tensor.was), " → ", words(tensor.is), ", ", used);
}

// How far it moved, for the largest first.
double distance(const ChangedTensor& tensor) {
  if (!tensor.used_before || !tensor.used_now) return 0;
  return std::max(*tensor.used_now / *tensor.used_before, *tensor.used_before / *tensor.used_now);
}

std::vector<ChangedTensor> largest_first(std::vector<ChangedTensor> tensors) {
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const auto& a, const auto& b) { return distance(a) > distance(b); });
  return tensors;
}

struct DiffRow {
  std::string label;
  std::string text;
};

std::vector<DiffRow> finding_rows(const NightDiff& diff, std::size_t most) {
  std::vector<DiffRow> rows;
  for (const FindingStatus status :
       {FindingStatus::kNew, FindingStatus::kChanged, FindingStatus::kSame,
        FindingStatus::kUncovered, FindingStatus::kHealed, FindingStatus::kGone}) {
    std::size_t count = 0;
    for (const ChangedFinding& finding : diff.findings) {
      if (finding.status != status || count++ >= most) continue;
      std::string text = concat(finding.headline, " (", base::plural(finding.members, "tensor"));
      if (!finding.before.empty() && finding.newly_diverged > 0) {
        text += concat(", ", finding.newly_diverged, " of them new");
      }
      rows.push_back({std::string(status_name(status)), text + ")"});
    }
    if (count > most) {
      rows.push_back({std::string(status_name(status)),
                      concat("and ", base::plural(count - most, "more finding"))});
    }
  }
  return rows;
}

// Findings tell what is newly diverged and what healed; a row of tensors tells the rest.
std::vector<DiffRow> tensor_rows(const NightDiff& diff, const TextStyle& style) {
  std::vector<DiffRow> rows;
  for (const Change change : kAllChanges) {
    const bool told = change == Change::kNewlyDiverged || change == Change::kHealed ||
                      change == Change::kAppeared;
    const std::vector<ChangedTensor> tensors = largest_first(diff.of(change));
    if (tensors.empty() || (told && !style.all)) continue;
    const std::string label = words(std::string(change_name(change)));
    const std::size_t most = style.all ? tensors.size() : kMostOfOne;
    for (std::size_t i = 0; i < tensors.size() && i < most; ++i) {
      rows.push_back({label, concat(tensors[i].id, "  ", moved(tensors[i]))});
    }
    if (tensors.size() > most) {
      rows.push_back({label, concat("and ", tensors.size() - most, " more (--all)")});
    }
  }
  return rows;
}

const char* colour_of(const NightDiff& diff) {
  return diff.exit_code == 0 ? "32" : diff.exit_code == 1 ? "31" : "33";
}

}  // namespace

void write_diff(const NightDiff& diff, const TextStyle& style, std::ostream& out) {
  constexpr std::size_t kMostOfLine = 160;
  constexpr std::size_t kEverything = 1000000;
  const std::string verdict = capitals(std::string(diff.verdict()));
  Screen screen(
      concat(bold(verdict, colour_of(diff), style), "  ", base::printable(diff.headline())), style);
  const auto add = [&](const DiffRow& row, Screen::Keep keep) {
    screen.add(row.label, row.text, keep, style.all ? kEverything : kMostOfLine);
  };
  for (const DiffRow& row : finding_rows(diff, style.all ? kEverything : kMostOfOne)) {
    add(row, Screen::Keep::kAlways);
  }
  for (const std::string& remark : diff.remarks) add({"note", remark}, Screen::Keep::kAlways);
  for (const ChangedCircumstance& one : diff.circumstances) {
    const auto said = [](const std::string& value) { return value.empty() ? "not said" : value; };
    add({"changed", concat(one.what, ": ", said(one.was), " → ", said(one.is))},
        Screen::Keep::kLong);
  }
  for (const DiffRow& row : tensor_rows(diff, style)) add(row, Screen::Keep::kShort);
  const auto one = [](const Night& night) {
    return concat(night.file, " (", capitals(night.verdict), ", ",
                  base::plural(night.tensors.size(), "tensor"), ")");
  };
  add({"reports",
       concat(one(diff.older), " and ", one(diff.newer), ", ", diff.in_common, " in common")},
      Screen::Keep::kLong);
  screen.write(out, style.all ? kEverything : kScreenLines);
}

}  // namespace ttrace::report
