#include "report/text_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <sstream>
#include <utility>

#include "base/text.h"
#include "localize/phase.h"
#include "report/answer_text.h"
#include "report/compare_screen.h"
#include "report/finding_groups.h"
#include "report/finding_text.h"
#include "report/notes_text.h"
#include "report/terminal_text.h"

namespace ttrace::report {
namespace {

using base::concat;
using base::printable;
using base::short_number;
using judge::Outcome;

// The first findings are printed in full, the next in one line each.
constexpr std::size_t kFindingsInFull = 1;
constexpr std::size_t kFindingsInLines = 12;
constexpr std::size_t kSuspectsInLines = 6;
constexpr std::size_t kReasonsInLines = 4;

void write_suspects(const comparison::CompareReport& report, const TextStyle& style,
                    std::ostream& out) {
  if (report.suspects.empty()) return;
  out << "\n  Second suspects: wrong too, and not explained by what they were computed from "
         "alone.\n";
  const std::size_t most = style.all ? report.suspects.size() : kSuspectsInLines;
  for (std::size_t i = 0; i < report.suspects.size() && i < most; ++i) {
    const answer::Suspect& suspect = report.suspects[i];
    out << "  also  " << printable(to_string(suspect.key)) << ": " << short_number(suspect.used)
        << " times its tolerance";
    if (suspect.largest) {
      out << ", where what it was computed from is at most " << short_number(suspect.used_before)
          << " times beyond (" << printable(to_string(*suspect.largest)) << ")";
    } else {
      out << ", where nothing that it was computed from differs";
    }
    out << "\n";
  }
  if (report.suspects.size() > most) {
    out << "  and " << report.suspects.size() - most << " more (--all)\n";
  }
}

void write_findings(const comparison::CompareReport& report,
                    const std::vector<FindingGroup>& groups, const TextStyle& style,
                    std::ostream& out) {
  const std::vector<Listed> list = listed(report, groups);
  const std::size_t in_full = style.all ? list.size() : kFindingsInFull;
  for (std::size_t i = 0; i < list.size() && i < in_full; ++i) {
    out << "\n";
    const FindingStyle of_finding{i + 1, style.width, style.all};
    if (list[i].setting) {
      write_setting(report, report.settings[*list[i].setting], of_finding, out);
    } else {
      write_findings_of(report, groups[list[i].group], of_finding, out);
    }
  }
  if (list.size() > in_full) out << "\n";
  const std::size_t stop = std::min(list.size(), in_full + kFindingsInLines);
  for (std::size_t i = in_full; i < stop; ++i) {
    if (list[i].setting) {
      const comparison::SettingDifference& setting = report.settings[*list[i].setting];
      out << "  " << i + 1 << "  " << printable(setting.name) << " of "
          << base::plural(setting.parameters.size(), "parameter") << ": reference "
          << printable(setting.reference) << ", candidate " << printable(setting.candidate) << "\n";
    } else {
      write_line_of(report, groups[list[i].group], i + 1, out);
    }
  }
  if (stop < list.size()) out << "  and " << list.size() - stop << " more (--all)\n";
  write_suspects(report, style, out);
}

void write_every_tensor(const comparison::CompareReport& report, std::ostream& out) {
  out << "\n  outcome            error      allowed    used    tensor\n";
  for (const comparison::TensorComparison& result : report.results) {
    std::array<char, 96> row{};
    if (result.comparison) {
      const comparison::ComparedNumbers& comparison = *result.comparison;
      const double norm = measure::reference_norm(comparison.measurement.total);
      const double allowed = comparison.tolerance.allowed_norm();
      const double used = comparison::told_share(result);
      std::snprintf(row.data(), row.size(), "  %-18s %-10s %-10s %-7s",
                    std::string(outcome_name(result.outcome)).c_str(),
                    short_number(comparison::told_error(result)).c_str(),
                    norm > 0 ? short_number(allowed / norm).c_str() : "0",
                    std::isfinite(used) ? percent(used).c_str()
                    : std::isnan(used)  ? "nan"
                                        : "inf");
    } else {
      std::snprintf(row.data(), row.size(), "  %-18s %-10s %-10s %-7s",
                    std::string(outcome_name(result.outcome)).c_str(), "-", "-", "-");
    }
    out << row.data() << " " << printable(to_string(result.key));
    if (!result.reason.empty()) out << "  (" << printable(result.reason) << ")";
    out << "\n";
  }
}

void write_counts(const comparison::CompareReport& report, std::ostream& out) {
  const auto count = [&report](Outcome outcome) { return report.counts.at(outcome); };
  out << "\n  " << base::plural(report.results.size(), "tensor") << ": " << count(Outcome::kMatch)
      << " match";
  const auto add = [&](Outcome outcome, const char* one, const char* several) {
    if (count(outcome) == 0) return;
    out << ", " << count(outcome) << " " << (count(outcome) == 1 ? one : several);
  };
  const auto add_alike = [&add](Outcome outcome, const char* name) { add(outcome, name, name); };
  add_alike(Outcome::kDiverged, "diverged");
  add(Outcome::kReplicaConflict, "replica conflict", "replica conflicts");
  add_alike(Outcome::kMissing, "missing");
  add_alike(Outcome::kExtra, "extra");
  add_alike(Outcome::kIncomparable, "incomparable");
  if (report.verdict == answer::Verdict::kWrong ||
      (report.interrupted && !report.findings.empty())) {
    std::size_t first = 0;
    for (const comparison::ComparedFinding& finding : report.findings)
      first += finding.members.size();
    out << " (" << first << " first, " << report.downstream << " downstream)";
  }
  add_alike(Outcome::kUnreadable, "unreadable");
  add_alike(Outcome::kBelowNoiseFloor, "below the noise floor");
  add_alike(Outcome::kNotJudged, "not judged");
  add_alike(Outcome::kNotRecorded, "not recorded by one side");
  add_alike(Outcome::kSkippedByRule, "skipped");
  add(Outcome::kRoutingFlip, "routing flip", "routing flips");
  add_alike(Outcome::kAfterRoutingFlip, "not judged after routing flips");
  out << "\n";
  if (report.kinds_in_neither.empty()) return;
  out << "  not recorded by either side, and so not checked:";
  for (std::size_t i = 0; i < report.kinds_in_neither.size(); ++i) {
    out << (i > 0 ? ", " : " ") << kind_name(report.kinds_in_neither[i]);
  }
  out << "\n";
}

// Writes the tensors that were not judged, or are of another implementation, by reason.
void write_not_judged(const comparison::CompareReport& report, std::ostream& out) {
  std::map<std::string, std::pair<std::size_t, const comparison::TensorComparison*>> reasons;
  for (const comparison::TensorComparison& result : report.results) {
    if (result.outcome != Outcome::kNotJudged && !result.other_implementation) continue;
    auto& [count, first] = reasons[result.reason];
    if (++count == 1) first = &result;
  }
  std::size_t printed = 0;
  for (const auto& [reason, found] : reasons) {
    if (printed++ == kReasonsInLines) {
      out << "    and for " << reasons.size() - kReasonsInLines << " more reasons (--all)\n";
      break;
    }
    out << (found.second->other_implementation ? "  not recorded: " : "  not judged: ")
        << printable(to_string(found.second->key));
    if (found.first > 1) out << " and " << found.first - 1 << " more";
    out << ": " << printable(reason) << "\n";
  }
}

// Writes which replicas differ by less than the tolerance: no finding, but unexpected.
void write_drift(const comparison::CompareReport& report, std::ostream& out) {
  std::size_t drifting = 0;
  const comparison::TensorComparison* furthest = nullptr;
  double largest = 0;
  for (const comparison::TensorComparison& result : report.results) {
    if (!result.comparison || result.outcome == Outcome::kReplicaConflict ||
        !result.comparison->measurement.replicas_differ) {
      continue;
    }
    ++drifting;
    const double allowed = result.comparison->tolerance.allowed_norm();
    const double share =
        allowed > 0 ? result.comparison->measurement.replicas->distance_norm / allowed : 0;
    if (furthest == nullptr || share > largest) {
      furthest = &result;
      largest = share;
    }
  }
  if (furthest == nullptr) return;
  out << "  drift: replicas of " << base::plural(drifting, "tensor")
      << " differ, by less than the tolerance; the furthest by " << percent(largest) << " of it ("
      << printable(to_string(furthest->key)) << ")\n";
}

std::string describe_trace(const answer::TraceFacts& facts) {
  std::string text = concat(printable(facts.path), " (");
  std::string mesh;
  for (const trace::MeshAxis& axis : facts.mesh) {
    if (axis.size == 1) continue;
    mesh += concat(mesh.empty() ? "" : " × ", printable(axis.name), " ", axis.size);
  }
  if (!mesh.empty()) text += concat(mesh, " = ");
  text += base::plural(facts.ranks, "rank");
  if (!facts.precision.empty()) text += concat(", ", printable(facts.precision));
  return text + ")";
}

bool diverged(const comparison::CompareReport& report) {
  return report.verdict == answer::Verdict::kWrong;
}

// Writes how many tensors the rules of the map dropped, by reason.
void write_dropped(const comparison::CompareReport& report, bool all, std::ostream& out) {
  std::map<std::string, std::uint64_t> reasons;
  for (const comparison::DroppedTensors& dropped : report.dropped)
    reasons[dropped.reason] += dropped.tensors;
  std::size_t printed = 0;
  for (const auto& [reason, tensors] : reasons) {
    if (!all && printed++ == kReasonsInLines) {
      out << "    and for " << reasons.size() - kReasonsInLines << " more reasons (--all)\n";
      break;
    }
    out << "    dropped: " << base::plural(tensors, "tensor") << ": " << printable(reason) << "\n";
  }
}

void write_footer(const comparison::CompareReport& report, const TextStyle& style,
                  std::ostream& out) {
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%.2f", report.environment.seconds);
  out << "  reference " << describe_trace(report.reference) << " · candidate "
      << describe_trace(report.candidate) << " · "
      << (report.noise_runs.empty()
              ? std::string("tolerance by the fallback rule")
              : concat("tolerance from ", base::plural(report.noise_runs.size(), "noise run")))
      << (report.tolerance_file.empty() ? "" : concat(" (", printable(report.tolerance_file), ")"))
      << " · " << execution_text(report.environment) << " · "
      << base::human_bytes(report.environment.bytes_read) << " in " << seconds.data() << " s\n";
  if (!report.layout_rules.empty()) {
    out << "  layouts of the candidate overridden by " << printable(report.layout_rules) << "\n";
  }
  if (!report.map_rules.empty()) {
    out << "  tensors mapped by " << printable(report.map_rules) << "\n";
    write_dropped(report, style.all, out);
  }
  if (report.noise_runs.empty()) {
    out << "  The fallback rule does not depend on the model; perturbed runs of the reference "
           "(--noise RUN) give tighter tolerances.\n";
  }
  if (report.part) {
    out << "  This is part " << report.part->number.index << " of " << report.part->number.of
        << " and does not cover the tensors of the others; `ttrace report merge` joins the --json "
           "files of all.\n";
  }
  if (diverged(report)) {
    out << "  How to read it: `ttrace explain m`, and likewise ε, used, \"would pass\".\n";
  }
  if (!report.from_modules && !report.findings.empty()) {
    out << "  The reference has no data flow (modules), so \"first\" follows the execution "
           "order.\n";
  }
}

}  // namespace

void write_text(const comparison::CompareReport& report, const TextStyle& style,
                std::ostream& out) {
  const std::vector<FindingGroup> groups = group_findings(report);
  const FirstLine answer = first_line_of(report, groups);
  const WrittenFirstLine first_line = write_first_line(answer, style);
  if (!style.all) return write_screen(report, groups, first_line, style, out);
  std::ostringstream text;
  text << first_line.text << "\n";
  if (first_line.is_cut) text << "\n  in full: " << answer.sentence << "\n";
  // Two traces without a common tensor have findings too, but these mean nothing.
  const bool diverged = report.verdict == answer::Verdict::kWrong || report.interrupted;
  if (diverged) write_microbatches(report, text);
  if (diverged && report.other_start) write_start(report, text);
  if (diverged && !listed(report, groups).empty()) {
    text << "\n  " << describe_first_of(report, groups) << "\n";
    write_findings(report, groups, style, text);
  }
  write_every_tensor(report, text);
  write_counts(report, text);
  for (const Clause& clause : first_line.left_out) {
    text << "  remark: " << base::render(clause.message) << "\n";
  }
  write_not_judged(report, text);
  write_drift(report, text);
  write_unmatched(report, style.all, text);
  write_routing(report, style.all, text);
  write_footer(report, style, text);
  out << folded(text.str(), style.width);
}

}  // namespace ttrace::report
