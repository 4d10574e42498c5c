#include "report/finding_text.h"

#include <cmath>
#include <map>
#include <vector>

#include "base/concat.h"
#include "base/number_text.h"
#include "report/routing_text.h"
#include "report/truth_text.h"
#include "report/wrap.h"
#include "verdict/phase.h"

namespace ttrace::report {
namespace {

using base::concat;
using base::printable;
using base::short_number;

constexpr std::size_t kLabelStart = 5;
constexpr std::size_t kTextStart = 14;

// Writes labelled lines of evidence.
class Lines {
 public:
  Lines(std::ostream& out, std::size_t width) : out_(out), width_(width) {}

  void add(const char* label, const std::string& text) {
    if (text.empty()) return;
    std::string padded = std::string(kLabelStart, ' ') + label;
    padded.resize(kTextStart, ' ');
    out_ << padded << wrapped(printable(text), width_, kTextStart) << "\n";
  }

 private:
  std::ostream& out_;
  std::size_t width_;
};

std::string error_words(const Result& result) {
  const Comparison& comparison = *result.comparison;
  const double error = relative_error(comparison.measurement);
  const double norm = compare::reference_norm(comparison.measurement.total);
  const double epsilon = comparison.tolerance.epsilon;
  if (result.exact) return result.reason;
  const double difference = compare::difference_norm(comparison.measurement.total);
  const double multiplier = passing_multiplier(comparison);
  std::string text =
      norm > 0 ? concat(short_number(error), " of its norm = ", short_number(error / epsilon), " ε",
                        "      allowed ", short_number(comparison.tolerance.allowed_norm() / norm))
               : concat(short_number(difference), ", and the reference is zero      allowed ",
                        short_number(comparison.tolerance.allowed_norm()));
  text += concat(" (", comparison.tolerance.formula, ")");
  if (multiplier > 0) {
    const tolerance::Rule rule = comparison.tolerance.rule;
    text += std::isfinite(multiplier) ? concat("      would pass at ",
                                               rule == tolerance::Rule::kReplay  ? "bounds × "
                                               : rule == tolerance::Rule::kNoise ? "m = "
                                                                                 : "k = ",
                                               short_number(multiplier))
                                      : std::string("      no multiplier would pass it");
  }
  return text;
}

std::string replay_words(const Result& result) {
  const auto& replay = result.comparison->replay;
  if (!replay) return "";
  std::string text =
      concat(base::plural(replay->outside, "element"), replay->outside == 1 ? " is" : " are",
             " not what ", replay->optimizer, " makes of the candidate's own gradient and state");
  if (replay->worst) {
    text += concat("; the worst by ", short_number(replay->worst->ratio), " times its bound, at ",
                   tensor::to_string(replay->worst->at));
    if (replay->worst->place) {
      text += concat(" (rank ", replay->worst->place->rank, " at ",
                     tensor::to_string(replay->worst->place->local), ")");
    }
  }
  if (replay->reference_norm > 0) {
    text +=
        concat("; from the reference it is ",
               short_number(replay->reference_difference_norm / replay->reference_norm), " away");
  }
  return result.reason.empty() ? text : concat(text, "; ", result.reason);
}

std::string replica_words(const Result& result) {
  const compare::Measurement& measurement = result.comparison->measurement;
  if (result.outcome != verdict::Outcome::kReplicaConflict) return "";
  const double norm = compare::reference_norm(measurement.total);
  if (!(norm > 0)) return "";
  return concat("the copies differ by ", short_number(measurement.replicas.distance_norm / norm),
                " of the reference's norm");
}

// Where the whole is beyond its tolerance, the worst part says little more than where the error is.
std::string part_words(const Finding& finding, const Result& result) {
  const Comparison& comparison = *result.comparison;
  const double difference = compare::difference_norm(comparison.measurement.total);
  if (!(difference <= comparison.tolerance.allowed_norm())) return "";
  return finding.parts.empty() ? "" : concat("the whole is within, but ", finding.parts);
}

std::string cause_words(const Finding& finding) {
  std::string text;
  for (const diagnosis::Cause& cause : finding.causes) {
    text += concat(text.empty() ? "" : "; or ", cause.name,
                   cause.axis.empty() ? "" : concat(" over ", cause.axis), ": ", cause.evidence);
  }
  return text.empty() ? "unknown: no known cause fits the numbers" : text;
}

std::string downstream_words(const CompareReport& report, const Finding& finding) {
  if (finding.downstream.empty()) return "nothing that was recorded follows wrongly from it";
  std::map<std::string_view, std::size_t> kinds;
  for (const std::size_t i : finding.downstream) ++kinds[kind_name(report.results[i].key.kind)];
  std::string text;
  for (const auto& [kind, count] : kinds) {
    text += concat(text.empty() ? "" : ", ", count, " ", kind);
  }
  return text;
}

std::string largest_words(const Result& result) {
  const auto& largest = result.comparison->measurement.total.largest;
  if (!largest) return "";
  std::string text =
      concat("|d| = ", short_number(largest->difference), " at ", tensor::to_string(largest->at),
             result.comparison->replay ? ": replayed " : ": reference ",
             short_number(largest->reference), ", candidate ", short_number(largest->candidate));
  if (result.largest_rank) {
    text += concat(" (rank ", *result.largest_rank, " at ", tensor::to_string(result.largest_local),
                   ")");
  }
  return text;
}

std::string scale_words(const Result& result) {
  const compare::TileStats& stats = result.comparison->measurement.total;
  const auto fit = compare::fit_scale(stats);
  const auto cosine = compare::cosine(stats);
  if (!fit || stats.finite < 2) return "";
  std::string text = concat("fitted scale ", short_number(fit->scale), ", left after it ",
                            short_number(fit->residual_norm / compare::reference_norm(stats)));
  if (cosine) text += concat(", cosine ", short_number(*cosine));
  return text;
}

std::string code_words(const Finding& finding) {
  if (finding.class_name.empty()) return finding.called_at;
  if (finding.called_at.empty()) return finding.class_name;
  return concat(finding.class_name, ", called in ", finding.called_at);
}

void write_one_sided(const CompareReport& report, const Finding& finding, Lines& lines) {
  std::map<std::string_view, std::size_t> kinds;
  for (const std::size_t i : finding.members) ++kinds[kind_name(report.results[i].key.kind)];
  std::string what;
  for (const auto& [kind, count] : kinds)
    what += concat(what.empty() ? "" : ", ", count, " ", kind);
  const bool extra = report.results[finding.result].outcome == verdict::Outcome::kExtra;
  lines.add(extra ? "extra" : "missing",
            concat(what, extra ? " in the candidate alone" : " in the candidate"));
  lines.add("why", report.results[finding.result].note);
}

}  // namespace

void write_finding(const CompareReport& report, std::size_t index, std::size_t width,
                   std::ostream& out) {
  Lines lines(out, width);
  const Finding& finding = report.findings[index];
  const Result& result = report.results[finding.result];
  const bool group = finding.members.size() > 1;
  out << "  " << index + 1 << "  "
      << (group ? printable(finding.one_sided_group)
                : concat(kind_name(result.key.kind), "  ", printable(result.key.name), "  ",
                         tensor::to_string(result.shape), " ", dtype_short_name(result.dtype)))
      << "      " << verdict::phase_words(verdict::phase_of(result.key)) << "\n";
  if (result.comparison) {
    lines.add("error", error_words(result));
    lines.add("routing", left_out_words(result));
    lines.add("where", finding.where);
    lines.add("parts", part_words(finding, result));
    lines.add("replay", replay_words(result));
    lines.add("copies", replica_words(result));
    lines.add("truth", result.truth ? truth_words(*result.truth) : "");
    lines.add("cause", cause_words(finding));
  } else {
    write_one_sided(report, finding, lines);
  }
  lines.add("before", finding.before);
  lines.add("after", downstream_words(report, finding));
  if (result.comparison) {
    lines.add("merged", finding.merged);
    lines.add("largest", largest_words(result));
    lines.add("scale", scale_words(result));
  }
  lines.add("code", code_words(finding));
}

void write_finding_line(const CompareReport& report, std::size_t index, std::ostream& out) {
  const Finding& finding = report.findings[index];
  const Result& result = report.results[finding.result];
  if (finding.members.size() > 1) {
    out << "  " << index + 1 << "  "
        << (result.outcome == verdict::Outcome::kExtra ? "in the candidate alone: " : "missing: ")
        << printable(finding.one_sided_group) << " ("
        << base::plural(finding.members.size(), "tensor") << ")\n";
    return;
  }
  out << "  " << index + 1 << "  " << printable(to_string(result.key)) << ": "
      << outcome_name(result.outcome);
  if (result.comparison && !result.exact) {
    out << ", error " << short_number(relative_error(result.comparison->measurement));
  }
  if (!finding.causes.empty()) {
    const diagnosis::Cause& cause = finding.causes.front();
    out << ", " << cause.name
        << (cause.axis.empty() ? "" : concat(" over ", printable(cause.axis)));
  }
  out << "\n";
}

}  // namespace ttrace::report
