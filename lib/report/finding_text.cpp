#include "report/finding_text.h"

#include <cmath>
#include <map>
#include <vector>

#include "base/display_limits.h"
#include "base/message.h"
#include "base/text.h"
#include "localize/phase.h"
#include "localize/place.h"
#include "report/answer_text.h"
#include "report/notes_text.h"
#include "report/place_words.h"
#include "report/terminal_text.h"

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

bool whole_is_within(const comparison::ComparedNumbers& comparison) {
  const double difference = measure::difference_norm(comparison.measurement.total);
  return difference <= comparison.tolerance.allowed_norm();
}

// The error and what is allowed. If the whole tensor is within its tolerance and only a slice is
// not, begins with the slice.
std::string describe_error(const comparison::ComparedFinding& finding,
                           const comparison::TensorComparison& result) {
  const comparison::ComparedNumbers& comparison = *result.comparison;
  const double error = comparison::told_error(result);
  const double norm = measure::reference_norm(comparison.measurement.total);
  const double epsilon = comparison.tolerance.epsilon;
  if (result.exact) return result.reason;
  if (comparison.measurement.total.nonfinite_different > 0) {
    return concat(base::plural(comparison.measurement.total.nonfinite_different, "value"),
                  " NaN or infinite on one side alone      no multiplier would pass it");
  }
  const double difference = measure::difference_norm(comparison.measurement.total);
  const double multiplier = comparison::told_multiplier(result);
  const bool slice_failed = whole_is_within(comparison) && !finding.parts.empty();
  const std::string failed =
      slice_failed ? concat(finding.parts, "; the whole is within: ") : std::string();
  std::string text =
      failed +
      (norm > 0
           ? concat(short_number(error), " of its norm = ", short_number(error / epsilon), " ε",
                    "      allowed ", short_number(comparison.tolerance.allowed_norm() / norm))
           : concat(short_number(difference), ", and the reference is zero      allowed ",
                    short_number(comparison.tolerance.allowed_norm())));
  text += concat(" (", comparison.tolerance.formula, ")");
  if (multiplier > 0) {
    const judge::Rule rule = comparison.tolerance.rule;
    text += std::isfinite(multiplier) ? concat("      would pass at ",
                                               rule == judge::Rule::kReplay  ? "bounds × "
                                               : rule == judge::Rule::kNoise ? "m = "
                                                                             : "k = ",
                                               short_number(multiplier))
                                      : std::string("      no multiplier would pass it");
  }
  return text;
}

std::string describe_replay(const comparison::TensorComparison& result) {
  const auto& replay = result.comparison->replay;
  if (!replay) return "";
  if (replay->of == "grad_norm") {
    const double off = std::abs(replay->reference_difference_norm);
    return concat(result.reason, "; from the reference it is ",
                  short_number(replay->reference_norm > 0 ? off / replay->reference_norm : off),
                  " away");
  }
  const bool master = replay->of == comparison::kOfMaster;
  std::string text = base::render(
      {master ? "{count:element} of the parameter {count?is|are} not what its master holds before "
                "the step"
              : "{count:element} {count?is|are} not what {of} computes from the candidate's own "
                "gradient and state",
       {{"count", replay->outside}, {"of", replay->of}}});
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

std::string describe_replicas(const comparison::TensorComparison& result) {
  const measure::Measurement& measurement = result.comparison->measurement;
  if (result.outcome != judge::Outcome::kReplicaConflict) return "";
  const double norm = measure::reference_norm(measurement.total);
  if (!(norm > 0)) return "";
  return concat("the copies differ by ", short_number(measurement.replicas->distance_norm / norm),
                " of the reference's norm");
}

std::string describe_causes(const comparison::ComparedFinding& finding) {
  std::string text;
  for (const answer::Cause& cause : finding.causes) {
    text += concat(text.empty() ? "" : "; or ", describe_cause(cause));
  }
  return text.empty() ? "unknown: no known cause fits the numbers" : text;
}

std::string describe_downstream(const comparison::CompareReport& report,
                                const comparison::ComparedFinding& finding) {
  if (finding.downstream.empty()) return "no recorded tensor downstream is wrong";
  std::map<std::string_view, std::size_t> kinds;
  for (const std::size_t i : finding.downstream) ++kinds[kind_name(report.results[i].key.kind)];
  std::string text;
  for (const auto& [kind, count] : kinds) {
    text += concat(text.empty() ? "" : ", ", count, " ", kind);
  }
  return text;
}

// An integer with all of its digits, if binary64 represents it exactly.
std::string whole_number(double value) {
  constexpr double kMost = 0x1p53;
  if (std::abs(value) <= kMost) return concat(static_cast<std::int64_t>(value));
  return concat("about ", short_number(value));
}

std::string describe_largest(const comparison::TensorComparison& result) {
  const auto& largest = result.comparison->measurement.total.largest;
  if (!largest) return "";
  const auto value = [&result](double one) {
    return result.exact ? whole_number(one) : short_number(one);
  };
  std::string text =
      concat("|d| = ", value(largest->difference), " at ", tensor::to_string(largest->at),
             result.comparison->replay ? ": replayed " : ": reference ", value(largest->reference),
             ", candidate ", value(largest->candidate));
  if (const auto& place = result.comparison->measurement.largest_place) {
    text += concat(" (rank ", place->rank, " at ", tensor::to_string(place->local), ")");
  }
  return text;
}

std::string describe_scale(const comparison::TensorComparison& result) {
  const measure::TileStats& stats = result.comparison->measurement.total;
  const auto fit = measure::fit_scale(stats);
  const auto cosine = measure::cosine(stats);
  if (!fit || stats.finite < 2) return "";
  std::string text = concat("fitted scale ", short_number(fit->scale), ", left after it ",
                            short_number(fit->residual_norm / measure::reference_norm(stats)));
  if (cosine) text += concat(", cosine ", short_number(*cosine));
  return text;
}

std::string describe_code(const comparison::ComparedFinding& finding) {
  if (finding.class_name.empty()) return finding.called_at;
  if (finding.called_at.empty()) return finding.class_name;
  return concat(finding.class_name, ", called in ", finding.called_at);
}

void write_one_sided(const comparison::CompareReport& report,
                     const comparison::ComparedFinding& finding, Lines& lines) {
  std::map<std::string_view, std::size_t> kinds;
  for (const std::size_t i : finding.members) ++kinds[kind_name(report.results[i].key.kind)];
  std::string what;
  for (const auto& [kind, count] : kinds)
    what += concat(what.empty() ? "" : ", ", count, " ", kind);
  const bool extra = report.results[finding.result].outcome == judge::Outcome::kExtra;
  lines.add(extra ? "extra" : "missing",
            concat(what, extra ? " in the candidate alone" : " in the candidate"));
  lines.add("why", *report.results[finding.result].note);
}

std::string title_of(const comparison::ComparedFinding& finding,
                     const comparison::TensorComparison& result) {
  if (finding.members.size() > 1) return finding.one_sided_group;
  return concat(kind_name(result.key.kind), "  ", result.key.name, "  ",
                tensor::to_string(result.shape), " ", dtype_short_name(result.dtype));
}

void write_evidence(const comparison::CompareReport& report, std::size_t index, std::size_t width,
                    std::ostream& out) {
  Lines lines(out, width);
  const comparison::ComparedFinding& finding = report.findings[index];
  const comparison::TensorComparison& result = report.results[finding.result];
  if (result.comparison) {
    // The values that are not finite are the error; the others may be within the tolerance.
    const bool not_finite = result.comparison->measurement.total.nonfinite_different > 0;
    if (not_finite) lines.add("where", finding.where);
    lines.add("error", describe_error(finding, result));
    lines.add("values", finding.values);
    lines.add("routing", describe_tokens_left_out(result));
    if (!not_finite) lines.add("where", finding.where);
    lines.add("replay", describe_replay(result));
    lines.add("copies", describe_replicas(result));
    lines.add("cause", describe_causes(finding));
  } else if (result.outcome == judge::Outcome::kIncomparable) {
    lines.add("shapes", finding.merged);
  } else {
    write_one_sided(report, finding, lines);
  }
  if (!result.comparison && !finding.causes.empty()) {
    lines.add("cause", describe_causes(finding));
  }
  lines.add("before", finding.before);
  lines.add("after", describe_downstream(report, finding));
  if (result.comparison) {
    lines.add("merged", finding.merged);
    lines.add("largest", describe_largest(result));
    lines.add("scale", describe_scale(result));
  }
  if (finding.members.size() < 2) {
    lines.add("place", describe_place(localize::place_of(report, finding), finding.called_at));
  }
  lines.add("code", describe_code(finding));
  if (!finding.record_next.empty()) {
    lines.add("record", concat(finding.record_next, " on both runs shows the layer around it"));
  }
}

}  // namespace

void write_findings_of(const comparison::CompareReport& report, const FindingGroup& group,
                       const FindingStyle& style, std::ostream& out) {
  const bool several = group.findings.size() > 1;
  const auto title = [&](std::size_t f) {
    return printable(title_of(report.findings[f], report.results[report.findings[f].result]));
  };
  const comparison::TensorComparison& shown = report.results[report.findings[group.shown].result];
  out << "  " << style.number << "  " << (several ? printable(group.title) : title(group.shown))
      << "      " << describe_phase(localize::phase_of(shown.key)) << "\n";
  if (several && !style.all) {
    Lines(out, style.width)
        .add("shown", concat(to_string(shown.key), " ", tensor::to_string(shown.shape), " ",
                             dtype_short_name(shown.dtype),
                             ", the one furthest beyond what is allowed (--all shows every one)"));
  }
  if (!several || !style.all) return write_evidence(report, group.shown, style.width, out);
  for (const std::size_t f : group.findings) {
    out << "     " << title(f) << "\n";
    write_evidence(report, f, style.width, out);
  }
}

void write_line_of(const comparison::CompareReport& report, const FindingGroup& group,
                   std::size_t number, std::ostream& out) {
  const comparison::ComparedFinding& finding = report.findings[group.shown];
  const comparison::TensorComparison& result = report.results[finding.result];
  out << "  " << number << "  ";
  if (finding.members.size() > 1) {
    out << (result.outcome == judge::Outcome::kExtra ? "in the candidate alone: " : "missing: ")
        << printable(finding.one_sided_group) << " ("
        << base::plural(finding.members.size(), "tensor") << ")\n";
    return;
  }
  const bool several = group.findings.size() > 1;
  out << printable(several ? group.title : to_string(result.key)) << ": "
      << outcome_name(result.outcome);
  if (result.outcome == judge::Outcome::kIncomparable) out << ", " << printable(result.reason);
  if (result.comparison && !result.exact) {
    const bool slice_failed = whole_is_within(*result.comparison) && !finding.parts.empty();
    const std::uint64_t not_finite = result.comparison->measurement.total.nonfinite_different;
    if (not_finite > 0) {
      out << ", " << not_finite << " NaN or Inf that are not the same";
    } else if (slice_failed) {
      out << ", " << printable(finding.parts);
    } else {
      out << ", error " << (several ? "up to " : "")
          << short_number(comparison::told_error(result));
    }
  }
  if (!finding.causes.empty()) out << ", " << printable(name_of(finding.causes.front()));
  out << "\n";
}

void write_setting(const comparison::CompareReport& report,
                   const comparison::SettingDifference& setting, const FindingStyle& style,
                   std::ostream& out) {
  out << "  " << style.number << "  " << printable(setting.name) << " of "
      << base::plural(setting.parameters.size(), "parameter") << ", step " << setting.step
      << "      a setting of the optimizer\n";
  Lines lines(out, style.width);
  lines.add("values", concat("reference ", setting.reference, ", candidate ", setting.candidate));
  std::string names;
  const std::size_t most = style.all ? setting.parameters.size() : base::kShown.parameters;
  for (std::size_t i = 0; i < setting.parameters.size() && i < most; ++i) {
    names += concat(i > 0 ? ", " : "", setting.parameters[i]);
  }
  if (setting.parameters.size() > most) {
    names += concat(" and ", setting.parameters.size() - most, " more");
  }
  lines.add("of", names);
  std::size_t wrong = 0;
  for (const std::size_t i : setting.updates) {
    wrong += judge::is_bad(report.results[i].outcome) ? 1 : 0;
  }
  if (!setting.updates.empty()) {
    lines.add("after", concat(wrong, " of their ", setting.updates.size(),
                              " updated parameters are wrong under the reference's setting"));
  }
}

}  // namespace ttrace::report
