#include "report/text_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>

#include "base/concat.h"
#include "base/number_text.h"
#include "report/finding_text.h"
#include "report/routing_text.h"
#include "report/truth_text.h"
#include "report/unmatched_text.h"
#include "verdict/phase.h"

namespace ttrace::report {
namespace {

using base::concat;
using base::printable;
using base::short_number;
using verdict::Outcome;

// Findings told in full; the others get a line each.
constexpr std::size_t kFindingsInFull = 1;
constexpr std::size_t kFindingsInLines = 12;

std::string bold(const std::string& text, const char* colour, const TextStyle& style) {
  return style.colour ? concat("\x1b[1;", colour, "m", text, "\x1b[0m") : text;
}

std::string percent(double share) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), share >= 0.1 ? "%.0f %%" : "%.2g %%", 100 * share);
  return buffer.data();
}

void write_answer(const CompareReport& report, const TextStyle& style, std::ostream& out) {
  switch (report.verdict) {
    case Verdict::kMatch: {
      const Result* closest = nullptr;
      for (const Result& result : report.results) {
        if (result.outcome != Outcome::kMatch || !result.comparison || result.exact) continue;
        // The last rounding of a replayed update reaches its bound in every large tensor.
        if (result.comparison->replay) continue;
        if (closest == nullptr ||
            used_share(*result.comparison) > used_share(*closest->comparison)) {
          closest = &result;
        }
      }
      out << bold("MATCH", "32", style) << "  "
          << base::plural(report.counts.at(Outcome::kMatch), "tensor")
          << (report.counts.at(Outcome::kMatch) == 1 ? " agrees within its tolerance"
                                                     : " agree within their tolerances");
      if (closest != nullptr) {
        out << "; the closest to its limit used " << percent(used_share(*closest->comparison))
            << " (" << printable(to_string(closest->key)) << ")";
      }
      out << "\n";
      break;
    }
    case Verdict::kDiverged: {
      const Finding& first = report.findings.front();
      const Result& result = report.results[first.result];
      std::string name = first.members.size() > 1 ? first.one_sided_group : to_string(result.key);
      if (result.outcome == Outcome::kExtra) {
        name += ", which the candidate alone has";
      } else if (first.members.size() > 1) {
        name += ", which is missing";
      }
      out << bold("DIVERGED", "31", style) << "  first at " << printable(name) << "        ("
          << base::plural(report.findings.size(), "finding") << ", "
          << base::plural(report.downstream, "tensor") << " downstream)\n";
      break;
    }
    case Verdict::kInconclusive:
      out << bold("INCONCLUSIVE", "33", style) << "  " << printable(report.why) << "\n";
      break;
  }
}

void write_findings(const CompareReport& report, const TextStyle& style, std::ostream& out) {
  const std::size_t in_full = style.all ? report.findings.size() : kFindingsInFull;
  for (std::size_t i = 0; i < report.findings.size() && i < in_full; ++i) {
    out << "\n";
    write_finding(report, i, style.width, out);
  }
  if (report.findings.size() <= in_full) return;
  out << "\n";
  const std::size_t stop = std::min(report.findings.size(), in_full + kFindingsInLines);
  for (std::size_t i = in_full; i < stop; ++i) write_finding_line(report, i, out);
  if (stop < report.findings.size()) {
    out << "  and " << report.findings.size() - stop << " more (--all)\n";
  }
}

void write_every_tensor(const CompareReport& report, std::ostream& out) {
  out << "\n  outcome            error      allowed    used    tensor\n";
  for (const Result& result : report.results) {
    std::array<char, 96> row{};
    if (result.comparison) {
      const Comparison& comparison = *result.comparison;
      const double norm = compare::reference_norm(comparison.measurement.total);
      const double allowed = comparison.tolerance.allowed_norm();
      std::snprintf(
          row.data(), row.size(), "  %-18s %-10s %-10s %-7s",
          std::string(outcome_name(result.outcome)).c_str(),
          short_number(relative_error(comparison.measurement)).c_str(),
          norm > 0 ? short_number(allowed / norm).c_str() : "0",
          std::isfinite(used_share(comparison)) ? percent(used_share(comparison)).c_str() : "inf");
    } else {
      std::snprintf(row.data(), row.size(), "  %-18s %-10s %-10s %-7s",
                    std::string(outcome_name(result.outcome)).c_str(), "-", "-", "-");
    }
    out << row.data() << " " << printable(to_string(result.key));
    if (!result.reason.empty()) out << "  (" << printable(result.reason) << ")";
    out << "\n";
  }
}

void write_counts(const CompareReport& report, std::ostream& out) {
  const auto count = [&report](Outcome outcome) { return report.counts.at(outcome); };
  out << "\n  " << base::plural(report.results.size(), "tensor") << ": " << count(Outcome::kMatch)
      << " match, " << count(Outcome::kDiverged) << " diverged, "
      << count(Outcome::kReplicaConflict)
      << (count(Outcome::kReplicaConflict) == 1 ? " replica conflict" : " replica conflicts");
  if (report.verdict == Verdict::kDiverged || (report.interrupted && !report.findings.empty())) {
    std::size_t first = 0;
    for (const Finding& finding : report.findings) first += finding.members.size();
    out << " (" << first << " first, " << report.downstream << " downstream)";
  }
  out << ", " << count(Outcome::kMissing) << " missing, " << count(Outcome::kExtra) << " extra, "
      << count(Outcome::kUnreadable) << " unreadable, " << count(Outcome::kIncomparable)
      << " incomparable";
  if (count(Outcome::kBelowNoiseFloor) > 0) {
    out << ", " << count(Outcome::kBelowNoiseFloor) << " below the noise floor";
  }
  if (count(Outcome::kSkippedByRule) > 0) {
    out << ", " << count(Outcome::kSkippedByRule) << " skipped";
  }
  if (count(Outcome::kRoutingFlip) > 0) {
    out << ", " << base::plural(count(Outcome::kRoutingFlip), "routing flip");
  }
  if (count(Outcome::kAfterRoutingFlip) > 0) {
    out << ", " << count(Outcome::kAfterRoutingFlip) << " not judged after routing flips";
  }
  out << "\n";
}

// Replicas that differ by less than the tolerance: no finding, but not what replicas should do.
void write_drift(const CompareReport& report, std::ostream& out) {
  std::size_t drifting = 0;
  const Result* furthest = nullptr;
  double largest = 0;
  for (const Result& result : report.results) {
    if (!result.comparison || result.outcome == Outcome::kReplicaConflict ||
        !result.comparison->measurement.replicas_differ) {
      continue;
    }
    ++drifting;
    const double allowed = result.comparison->tolerance.allowed_norm();
    const double share =
        allowed > 0 ? result.comparison->measurement.replicas.distance_norm / allowed : 0;
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

std::string trace_words(const TraceFacts& facts) {
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

void write_footer(const CompareReport& report, std::ostream& out) {
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%.2f", report.environment.seconds);
  out << "  reference " << trace_words(report.reference) << " · candidate "
      << trace_words(report.candidate) << " · "
      << (report.noise_runs.empty()
              ? std::string("tolerance by the fallback rule")
              : concat("tolerance from ", base::plural(report.noise_runs.size(), "noise run")))
      << (report.tolerance_file.empty() ? "" : concat(" (", printable(report.tolerance_file), ")"))
      << " · " << report.environment.backend << " " << report.environment.instruction_set << ", "
      << base::plural(report.environment.threads, "thread") << " · "
      << base::human_bytes(report.environment.bytes_read) << " in " << seconds.data() << " s\n";
  if (!report.layout_rules.empty()) {
    out << "  layouts of the candidate overridden by " << printable(report.layout_rules) << "\n";
  }
  if (!report.map_rules.empty()) {
    out << "  tensors mapped by " << printable(report.map_rules) << "\n";
  }
  if (report.noise_runs.empty()) {
    out << "  The fallback rule knows nothing of the model; --noise RUN with runs of the disturbed "
           "reference is sharper.\n";
  }
  if (report.part) {
    out << "  This is part " << report.part->number.index << " of " << report.part->number.of
        << " and says nothing of the others' tensors; `ttrace report merge` joins the --json "
           "files of all.\n";
  }
  if (!report.from_modules && !report.findings.empty()) {
    out << "  The reference has no data flow (modules), so \"first\" follows the execution "
           "order.\n";
  }
}

}  // namespace

void write_text(const CompareReport& report, const TextStyle& style, std::ostream& out) {
  write_answer(report, style, out);
  // Two traces without a common tensor have findings too, but those answer nothing.
  const bool diverged = report.verdict == Verdict::kDiverged || report.interrupted;
  if (diverged) write_findings(report, style, out);
  if (style.all) write_every_tensor(report, out);
  write_counts(report, out);
  write_drift(report, out);
  write_unmatched(report, style.all, out);
  write_routing(report, style.all, out);
  write_truth(report, out);
  write_footer(report, out);
}

}  // namespace ttrace::report
