#include "report/localize_text.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/display_limits.h"
#include "base/message.h"
#include "base/text.h"
#include "layout/mesh.h"
#include "report/answer_text.h"
#include "report/localize_report.h"
#include "report/localize_screen.h"
#include "report/place_words.h"
#include "report/screen.h"
#include "report/terminal_text.h"
#include "report/text_report.h"
#include "specification/describe.h"

namespace ttrace::report {
namespace {

using base::concat;
using base::plural;
using base::printable;
using base::short_number;

constexpr std::size_t kLocalizedInFull = 5;
constexpr std::size_t kLayersInLines = 20;
constexpr std::size_t kNotJudgedInLines = 4;
constexpr std::size_t kDifferencesInLines = 8;
constexpr std::size_t kLabel = 12;

void write_line(const std::string& label, const std::string& text, const TextStyle& style,
                std::ostream& out) {
  std::string padded = concat("   ", label);
  padded.resize(std::max(padded.size() + 1, kLabel), ' ');
  out << padded << wrapped(printable(text), style.width, padded.size()) << "\n";
}

std::string first_cause(const localize::LocalizedFinding& finding) {
  if (finding.outcome == "setting") return "optimizer setting";
  return finding.causes.empty() ? "cause unknown" : name_of(finding.causes.front());
}

void write_localized_finding(const localize::LocalizedFinding& finding, std::size_t number,
                             const TextStyle& style, std::ostream& out) {
  out << "\n";
  const std::string head = concat(number, "  ", printable(finding.title));
  out << folded(concat(head, std::string(head.size() < 60 ? 60 - head.size() : 3, ' '),
                       first_cause(finding)),
                style.width)
      << "\n";
  const bool in_module = finding.place.kind == localize::PlaceKind::kModule;
  if (!finding.module.empty()) {
    if (!in_module) {
      write_line("place",
                 concat(describe_place(finding.place, finding.called_at),
                        finding.here || finding.after_right_values ? "  *** HERE ***" : ""),
                 style, out);
    }
    write_line("module",
               concat(finding.module, in_module && finding.here ? "  *** HERE ***" : "",
                      finding.class_name.empty() ? "" : "  ", finding.class_name,
                      finding.called_at.empty() ? "" : ", ", finding.called_at),
               style, out);
    write_line("local", finding.summary, style, out);
  }
  if (!finding.where.empty()) write_line("where", finding.where, style, out);
  if (!finding.ranks.empty()) {
    write_line("ranks", layout::describe_ranks(finding.ranks), style, out);
  }
  for (const answer::Cause& cause : finding.causes) {
    write_line("cause", describe_cause(cause), style, out);
  }
  const std::string rejected = describe_rejected(finding.rejected);
  if (!rejected.empty()) write_line("not", rejected, style, out);
  if (finding.shown) {
    write_line("upstream",
               concat(finding.upstream, "      downstream  ", plural(finding.downstream, "tensor")),
               style, out);
  }
  write_line("next", finding.next, style, out);
}

void write_code(const localize::LocalizeReport& report, const TextStyle& style, std::ostream& out) {
  if (!report.code) return;
  const std::vector<specification::CodeDifference>& differences = report.code->differences;
  out << "\n"
      << folded(concat("  code: ", plural(differences.size(), "difference"), " in the ",
                       plural(report.code->compared, "expression"), " of ",
                       printable(report.specification), " and ",
                       printable(report.candidate_specification)),
                style.width)
      << "\n";
  const std::size_t most = style.all ? differences.size() : kDifferencesInLines;
  for (std::size_t i = 0; i < differences.size() && i < most; ++i) {
    const specification::CodeDifference& difference = differences[i];
    const trace::TensorKey& first = difference.tensors.front();
    std::string text =
        concat("  CODE  ", difference.what, ": ", kind_name(first.kind), " of ", first.name);
    if (difference.tensors.size() > 1) {
      text += concat(" and ", plural(difference.tensors.size() - 1, "other tensor"));
    }
    if (!difference.module_class.empty()) text += concat("  ", difference.module_class);
    if (!difference.called_at.empty()) text += concat(", ", difference.called_at);
    out << folded(printable(text), style.width) << "\n";
  }
  if (differences.size() > most) out << "  and " << differences.size() - most << " more (--all)\n";
}

void write_isolated(const localize::LocalizeReport& report, const TextStyle& style,
                    std::ostream& out) {
  if (report.plan_digest.empty()) return;
  std::size_t at_fault = 0;
  std::size_t holding = 0;
  std::vector<const localize::IsolatedModule*> not_judged;
  for (const localize::IsolatedModule& module : report.isolated) {
    at_fault += module.verdict == answer::Verdict::kWrong ? 1 : 0;
    holding += module.verdict == answer::Verdict::kRight ? 1 : 0;
    if (module.verdict == answer::Verdict::kInconclusive) not_judged.push_back(&module);
  }
  out << "\n"
      << folded(concat("  isolated by the plan ", report.plan_digest.substr(0, 12), ": ",
                       plural(report.isolated.size(), "module"), ", ", at_fault, " at fault, ",
                       holding, " as in the reference, ", not_judged.size(), " not judged"),
                style.width)
      << "\n";
  for (const localize::IsolatedModule& module : report.isolated) {
    if (module.verdict != answer::Verdict::kWrong) continue;
    std::string text = concat("  AT FAULT  ", module.module);
    if (!module.class_name.empty()) text += concat("  ", module.class_name);
    if (!module.called_at.empty()) text += concat(", ", module.called_at);
    text += concat(": ", describe_phase(module.phase), ", first ", to_string(module.wrong.front()));
    if (module.wrong.size() > 1) text += concat(" and ", module.wrong.size() - 1, " more");
    out << folded(printable(text), style.width) << "\n";
  }
  const std::size_t most = style.all ? not_judged.size() : kNotJudgedInLines;
  for (std::size_t i = 0; i < not_judged.size() && i < most; ++i) {
    out << folded(printable(
                      concat("  not judged  ", not_judged[i]->module, ": ", not_judged[i]->reason)),
                  style.width)
        << "\n";
  }
  if (not_judged.size() > most) out << "  and " << not_judged.size() - most << " more (--all)\n";
}

void write_plan(const localize::LocalizeReport& report, const TextStyle& style, std::ostream& out) {
  if (!report.written_plan) return;
  out << folded(concat("\n  plan ", printable(report.written_plan->file), " isolates ",
                       plural(report.written_plan->plan.modules.size(), "module"),
                       ": run reference and candidate again with TTRACE_PLAN=",
                       printable(report.written_plan->file),
                       " into other traces, then ttrace localize on these"),
                style.width)
      << "\n";
}

void write_layers(const localize::LocalizeReport& report, const TextStyle& style,
                  std::ostream& out) {
  if (report.layers.empty()) return;
  std::vector<const localize::LayerSummary*> layers;
  for (const localize::LayerSummary& layer : report.layers) layers.push_back(&layer);
  // Broken ones first, then by how close they are to their bound.
  std::stable_sort(layers.begin(), layers.end(), [](const auto* a, const auto* b) {
    if (a->broken.empty() != b->broken.empty()) return !a->broken.empty();
    return a->worst_share > b->worst_share;
  });
  out << "\n  module: tensors that follow from their own inputs, the closest to its bound\n";
  const std::size_t most = style.all ? layers.size() : kLayersInLines;
  for (std::size_t i = 0; i < layers.size() && i < most; ++i) {
    const localize::LayerSummary& layer = *layers[i];
    const std::uint64_t all = layer.judged + layer.not_judged;
    out << folded(
               concat("  ", printable(layer.module), layer.class_name.empty() ? "" : "  ",
                      printable(layer.class_name), ": ", layer.judged - layer.broken.size(), " of ",
                      all,
                      layer.judged > layer.broken.size() ? concat(", ", percent(layer.worst_share))
                                                         : std::string()),
               style.width)
        << "\n";
    for (const answer::AuditedTensor& tensor : layer.broken) {
      out << folded(concat("    broken: ", printable(to_string(tensor.key)), ": ",
                           printable(tensor.broken_check()->reason)),
                    style.width)
          << "\n";
    }
  }
  if (layers.size() > most) out << "  and " << layers.size() - most << " more (--all)\n";
}

// ", the first in the gradient synchronisation over tp"; empty where the first is a setting.
std::string describe_first_place(const localize::LocalizeReport& report) {
  if (report.findings.empty()) return "";
  const localize::LocalizedFinding& first = report.findings.front();
  if (!first.shown || !report.comparison.other_start.empty()) return "";
  const bool between = first.place.kind == localize::PlaceKind::kBetween;
  return printable(
      concat(", the first ", between ? "" : "in ", describe_place(first.place, first.called_at)));
}

// ", and 24 of 29 modules follow from their own inputs; 8 of the 172 tensors of the modules could
// not be judged by them". A module follows only if all of its tensors were judged.
std::string describe_layers(const localize::LocalizeReport& report) {
  const std::vector<localize::LayerSummary>& layers = report.layers;
  if (layers.empty()) return "";
  std::uint64_t in_full = 0;
  std::uint64_t tensors = 0;
  std::uint64_t not_judged = 0;
  for (const localize::LayerSummary& layer : layers) {
    in_full += layer.judged > 0 && layer.not_judged == 0 ? 1 : 0;
    tensors += layer.judged + layer.not_judged;
    not_judged += layer.not_judged;
  }
  const std::uint64_t modules = layers.size();
  if (in_full == modules) {
    return base::render(
        {", and {modules:module} {modules?follows|follow} from {modules?its|their} "
         "own inputs",
         {{"modules", modules}}});
  }
  if (not_judged == tensors) {
    return base::render(
        {"; no tensor of {modules:module} could be judged by its inputs{hint}",
         {{"modules", modules},
          {"hint", report.specification.empty() ? " (--specification says what these are)" : ""}}});
  }
  return base::render(
      {", and {in_full} of {modules:module} {in_full?follows|follow} from "
       "{in_full?its|their} own inputs; {not_judged} of the {tensors:tensor} of the "
       "modules could not be judged by them",
       {{"in_full", in_full},
        {"modules", modules},
        {"not_judged", not_judged},
        {"tensors", tensors}}});
}

}  // namespace

namespace {

FirstLine answer_of_all(const localize::LocalizeReport& report) {
  const std::string left_out = printable(localize::describe_left_out(report.comparison));
  const std::string& start = report.comparison.other_start;
  std::string text;
  switch (report.verdict()) {
    case answer::Verdict::kRight:
      return {"NOTHING TO EXPLAIN", "32",
              concat("the comparison is a match", left_out.empty() ? "" : ", but ", left_out,
                     describe_layers(report))};
    case answer::Verdict::kWrong:
      text = !start.empty() || report.findings.empty()
                 ? printable(start)
                 : cut_at_word(printable(report.findings.front().headline), base::kShown.place);
      if (start.empty() && report.findings.size() > 1) {
        text += concat(" (and ", plural(report.findings.size() - 1, "other finding"), ")");
      }
      if (report.code && !report.code->differences.empty()) {
        text +=
            concat(text.empty() ? "" : "; ", plural(report.code->differences.size(), "difference"),
                   " between the specifications");
      }
      if (!left_out.empty()) text += concat("; ", left_out);
      return {"FINDINGS", "31", std::move(text)};
    case answer::Verdict::kInconclusive:
      break;
  }
  if (!report.unfinished.empty()) {
    text = printable(report.unfinished);
    if (!report.findings.empty()) {
      text += concat("; so far ", printable(report.findings.front().headline));
    }
  } else if (report.comparison.exit_code == 3) {
    text = printable(report.comparison.why);
  } else {
    text = concat("the comparison is a match", describe_layers(report));
  }
  return {"INCONCLUSIVE", "33", std::move(text)};
}

}  // namespace

FirstLine localize_answer(const localize::LocalizeReport& report) {
  FirstLine answer = answer_of_all(report);
  if (report.part) {
    const auto& [index, of] = report.part->number;
    answer.sentence = concat("part ", index, " of ", of, ": ", answer.sentence);
  }
  return answer;
}

void write_localize(const localize::LocalizeReport& report, const TextStyle& style,
                    std::ostream& out) {
  const FirstLine first = localize_answer(report);
  const std::string answer = concat(bold(first.verdict, first.colour, style), "  ", first.sentence);
  if (!style.all) return write_localize_screen(report, answer, style, out);
  out << folded(answer, style.width) << "\n";
  if (report.verdict() == answer::Verdict::kWrong) {
    out << folded(concat("\n  ", plural(report.findings.size(), "finding"),
                         describe_first_place(report),
                         report.specification.empty() ? ", explained without a specification" : ""),
                  style.width)
        << "\n";
  }
  write_code(report, style, out);
  write_isolated(report, style, out);
  const std::size_t most = report.findings.size();
  for (std::size_t i = 0; i < report.findings.size() && i < most; ++i) {
    write_localized_finding(report.findings[i], i + 1, style, out);
  }
  if (!report.consequences.empty()) {
    out << folded(concat("\nfollows    ",
                         printable(
                             specification::list_some(report.consequences, kLocalizedInFull, "; ")),
                         ": what the specification makes of values that have diverged, no "
                         "finding of its own"),
                  style.width)
        << "\n";
  }
  for (const localize::LocalizedSuspect& suspect : report.suspects) {
    out << folded(concat("\nalso       ", printable(to_string(suspect.key)), ": ",
                         short_number(suspect.used), " times its tolerance, before it ",
                         short_number(suspect.used_before), "; ", printable(suspect.summary),
                         "      second suspect"),
                  style.width)
        << "\n";
  }
  write_layers(report, style, out);
  write_plan(report, style, out);
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%.2f", report.environment.seconds);
  out << folded(concat("\n  reference ", printable(report.comparison.reference.path),
                       " · candidate ", printable(report.comparison.candidate.path), " · ",
                       report.specification.empty()
                           ? std::string("no specification: modules are not judged by their inputs")
                           : concat("specification ", printable(report.specification)),
                       " · ", seconds.data(), " s"),
                style.width)
      << "\n";
}

}  // namespace ttrace::report
