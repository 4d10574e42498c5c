#include "report/selftest_text.h"

#include <algorithm>

#include "base/text.h"
#include "report/text_report.h"

namespace ttrace::report {
namespace {

using base::concat;
using base::short_number;

constexpr std::size_t kFewMisses = 10;

std::string group_name(const comparison::SelftestGroup& group) {
  return concat(kind_name(group.kind), " ", dtype_short_name(group.dtype));
}

// "scale errors from 1.3e-6 (output f32) to 3.2e-5 (main_grad f32) in 9 of 10 tensors".
std::string describe_limits(const std::vector<comparison::SelftestGroup>& groups) {
  const comparison::SelftestGroup* best = nullptr;
  const comparison::SelftestGroup* worst = nullptr;
  const auto limit = [](const comparison::SelftestGroup& group) {
    return group.of(comparison::FaultKind::kScaled).nine_of_ten;
  };
  for (const comparison::SelftestGroup& group : groups) {
    if (group.of(comparison::FaultKind::kScaled).tried == 0) continue;
    if (limit(group) && (best == nullptr || *limit(group) < *limit(*best))) best = &group;
    if (worst != nullptr && !limit(*worst)) continue;
    if (worst == nullptr || !limit(group) || *limit(group) > *limit(*worst)) worst = &group;
  }
  if (worst == nullptr) return "faults, of which none is a scale error: no floating-point values";
  if (best == nullptr) return "no scale error up to a factor of 2 in 9 of 10 tensors of any kind";
  std::string text =
      concat("scale errors from ", short_number(*limit(*best)), " (", group_name(*best), ")");
  if (best == worst) return text + " in 9 of 10 tensors";
  text += concat(" to ", limit(*worst) ? short_number(*limit(*worst)) : "beyond a factor of 2",
                 " (", group_name(*worst), ")");
  return text + " in 9 of 10 tensors";
}

std::string cell(const comparison::FaultSummary& summary, comparison::FaultKind fault) {
  if (summary.tried == 0) return "-";
  if (!comparison::has_sizes(fault)) return concat(summary.caught, "/", summary.tried);
  return summary.nine_of_ten ? short_number(*summary.nine_of_ten) : "> 1";
}

using TableRow = std::vector<std::string>;

void write_table(const std::vector<TableRow>& rows, std::ostream& out) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const TableRow& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  for (const TableRow& row : rows) {
    std::string line = " ";
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - row[c].size(), ' ');
      line += c < 2 ? concat(" ", row[c], padding) : concat("  ", padding, row[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << "\n";
  }
}

void write_groups(const std::vector<comparison::SelftestGroup>& groups, std::ostream& out) {
  std::vector<TableRow> rows{{"kind", "type", "tensors", "scaled by", "1/16 by", "swapped",
                              "dropped", "zero row", "stale", "to bf16"}};
  for (const comparison::SelftestGroup& group : groups) {
    TableRow row{std::string(kind_name(group.kind)), std::string(dtype_short_name(group.dtype)),
                 concat(group.tensors)};
    for (const comparison::FaultKind fault : comparison::kAllFaults)
      row.push_back(cell(group.of(fault), fault));
    rows.push_back(std::move(row));
  }
  write_table(rows, out);
}

std::string describe_fault(comparison::FaultKind fault, const std::string& what) {
  const auto with = [&what](std::string_view text) {
    return what.empty() ? std::string(text) : concat(text, " (", what, ")");
  };
  switch (fault) {
    case comparison::FaultKind::kScaled:
      return "twice the value";
    case comparison::FaultKind::kPartScaled:
      return with("a sixteenth twice as large");
    case comparison::FaultKind::kSwapped:
      return with("two shards swapped");
    case comparison::FaultKind::kDropped:
      return with("a rank's part of the sum dropped");
    case comparison::FaultKind::kRowZeroed:
      return with("a row zeroed");
    case comparison::FaultKind::kStale:
      return with("a stale value");
    case comparison::FaultKind::kRounded:
      return "values rounded to bf16";
  }
  return "";
}

std::vector<std::string> misses_of(const std::vector<comparison::SelftestTensor>& tensors) {
  std::vector<std::string> lines;
  for (const comparison::SelftestTensor& tensor : tensors) {
    const std::string name = base::printable(to_string(tensor.key));
    if (!tensor.unjudged.empty()) {
      lines.push_back(concat(name, ": anything (", base::printable(tensor.unjudged), ")"));
      continue;
    }
    std::string missed;
    for (const comparison::FaultKind fault : comparison::kAllFaults) {
      const comparison::Trial& trial = tensor.trial(fault);
      if (trial.state != comparison::TrialState::kMissed) continue;
      missed += (missed.empty() ? "" : "; ") + describe_fault(fault, base::printable(trial.what));
    }
    if (!missed.empty()) lines.push_back(concat(name, ": ", missed));
  }
  return lines;
}

void write_weakest(const comparison::SelftestReport& report,
                   const std::vector<comparison::SelftestGroup>& groups, std::ostream& out) {
  for (const comparison::SelftestGroup& group : groups) {
    const comparison::FaultSummary& scaled = group.of(comparison::FaultKind::kScaled);
    if (!scaled.weakest || !scaled.all || scaled.all == scaled.nine_of_ten) continue;
    out << "  " << group_name(group) << ": half of them from " << short_number(*scaled.half)
        << ", all from " << short_number(*scaled.all) << " ("
        << base::printable(report.tensors[*scaled.weakest].key.name) << ")\n";
  }
}

}  // namespace

void write_selftest(const comparison::SelftestReport& report, bool all, std::ostream& out) {
  if (!report.why.empty()) {
    const bool diverged = report.pair == answer::Verdict::kWrong;
    out << (diverged ? "DIVERGED  " : "INCONCLUSIVE  ") << base::printable(report.why) << "\n";
    return;
  }
  const std::vector<comparison::SelftestGroup> groups = comparison::groups_of(report.tensors);
  std::uint64_t blind = 0;
  std::uint64_t unchanged = 0;
  for (const comparison::SelftestGroup& group : groups) blind += group.blind;
  for (const comparison::SelftestTensor& tensor : report.tensors) {
    for (const comparison::Trial& trial : tensor.trials) {
      unchanged += trial.state == comparison::TrialState::kUnchanged ? 1 : 0;
    }
  }
  out << "DETECTS  " << describe_limits(groups) << "; " << blind << " of "
      << base::plural(report.tensors.size(), "tensor")
      << (blind == 1 ? " checks nothing\n\n" : " check nothing\n\n");
  write_groups(groups, out);
  out << "\n  scaled by, 1/16 by: the smallest d with which 1 + d times the tensor, or a sixteenth "
         "of it, is caught in 9 of 10\n  others: in how many of the tensors where the fault "
         "changes a value it is caught\n";
  if (unchanged > 0) {
    out << "  " << base::plural(unchanged, "fault")
        << " would change no value (zeros scaled, equal shards swapped) and are not counted\n";
  }
  out << "\n";
  write_weakest(report, groups, out);
  const std::vector<std::string> misses = misses_of(report.tensors);
  if (misses.empty()) {
    out << "  missed: nothing\n";
    return;
  }
  out << "  missed in " << base::plural(misses.size(), "tensor") << ":\n";
  const std::size_t shown = all ? misses.size() : std::min(misses.size(), kFewMisses);
  for (std::size_t i = 0; i < shown; ++i) out << "    " << misses[i] << "\n";
  if (shown < misses.size()) {
    out << "    and " << misses.size() - shown << " more; --all lists them\n";
  }
}

}  // namespace ttrace::report
