#include "report/page/page_answer.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "answer/counted_findings.h"
#include "answer/outcomes.h"
#include "base/display_limits.h"
#include "base/text.h"
#include "report/page/read_parts.h"

namespace ttrace::report {
namespace {

using answer::Answer;
using answer::AnsweredFinding;
using answer::AnsweredTensor;
using base::concat;

constexpr std::size_t kMostShards = 4096;

// Members of `identity` and what the page calls them.
constexpr std::pair<std::string_view, std::string_view> kIdentity[] = {
    {"recorded_at", "recorded at"}, {"commit", "commit"}, {"host", "host"},
    {"command", "command"},         {"model", "model"},   {"framework", "framework"},
    {"collector", "collector"},
};

std::string mesh_text(const std::vector<Answer::Axis>& mesh) {
  std::string text;
  for (const Answer::Axis& axis : mesh) {
    text += concat(text.empty() ? "" : " × ", axis.name, " ", axis.size);
  }
  return text;
}

void add_run(const char* role, const std::optional<Answer::Run>& of,
             const std::optional<Answer::Identity>& identity, PageAnswer& out) {
  if (!of) return;
  PageRun run{role, {}};
  run.facts.emplace_back("path", of->path);
  if (identity) {
    if (!identity->run_id.empty()) run.facts.emplace_back("run", identity->run_id);
    for (const auto& [member, label] : kIdentity) {
      const auto told = identity->recorded.find(member);
      if (told != identity->recorded.end() && !told->second.empty()) {
        run.facts.emplace_back(label, told->second);
      }
    }
  }
  const std::string mesh = mesh_text(of->mesh);
  run.facts.emplace_back("ranks",
                         mesh.empty() ? concat(of->ranks) : concat(of->ranks, " (", mesh, ")"));
  if (!of->steps.empty()) run.facts.emplace_back("steps", base::numbers_in_words(of->steps));
  if (!of->precision.empty()) run.facts.emplace_back("precision", of->precision);
  out.runs.push_back(std::move(run));
}

// The command line that gives the answer again.
std::string command_line(const Answer& told) {
  std::string line = concat("ttrace ", told.command);
  for (const auto* run : {&told.reference, &told.candidate, &told.run}) {
    if (*run) line += " " + shell_word((*run)->path);
  }
  const auto add = [&line](const char* flag, const std::string& value) {
    if (!value.empty()) line += concat(" --", flag, " ", shell_word(value));
  };
  if (told.tolerance) {
    add("tolerance", told.tolerance->file);
    // A tolerance file names the noise runs that it was made of.
    for (const std::string& run : told.tolerance->noise_runs) {
      if (told.tolerance->file.empty()) add("noise", run);
    }
  }
  add("layout", told.layout_rules);
  add("map", told.map_rules);
  add("specification", told.specification);
  if (!told.selection) return line;
  for (const std::string& value : told.selection->only) add("only", value);
  for (const std::string& value : told.selection->skip) add("skip", value);
  for (const std::string& value : told.selection->kinds) add("kind", value);
  for (const std::uint64_t step : told.selection->steps) add("step", concat(step));
  if (told.selection->common.value_or(false)) line += " --common";
  return line;
}

std::vector<std::string> remarks_of(const Answer& told) {
  std::vector<std::string> remarks;
  const auto add = [&remarks](const std::string& text) {
    if (!text.empty()) remarks.push_back(text);
  };
  add(told.why);
  if (told.comparison) add(told.comparison->why);
  if (told.coverage && told.coverage->remarks) {
    for (const Answer::Remark& remark : *told.coverage->remarks) add(remark.text);
  }
  if (told.microbatches) add(told.microbatches->text);
  if (told.other_start) add(told.other_start->text);
  if (told.coverage && told.coverage->not_judged) {
    for (const auto& [reason, tensors] : *told.coverage->not_judged) {
      add(concat(tensors, " not judged: ", reason));
    }
    for (const auto& [kind, tensors] : told.coverage->lacking) {
      add(concat(tensors, " of kind ", kind, " that the step computes and the trace lacks"));
    }
  }
  remarks.insert(remarks.end(), told.warnings.begin(), told.warnings.end());
  return remarks;
}

// The numbers of a cause that its evidence does not spell out already. Its words do.
std::vector<PageFact> values_beside(const answer::Cause& cause) {
  std::vector<PageFact> values;
  for (const auto& [name, value] : cause.values) {
    if (std::holds_alternative<std::string>(value)) continue;
    const auto* const real = std::get_if<double>(&value);
    std::string text = base::short_number(
        real != nullptr ? *real : static_cast<double>(std::get<std::uint64_t>(value)));
    if (cause.evidence.find(text) == std::string::npos) {
      values.emplace_back(words(name), std::move(text));
    }
  }
  return values;
}

void add_page_causes(const AnsweredFinding& finding, PageFinding& out) {
  if (finding.causes) {
    for (const answer::Cause& cause : *finding.causes) {
      if (out.causes.size() == base::kShown.page_causes) break;
      out.causes.push_back({cause.name + (cause.axis.empty() ? "" : " over " + cause.axis),
                            cause.evidence, cause.unexplained, values_beside(cause)});
    }
  }
  if (!finding.rejected) return;
  for (const answer::RejectedCause& cause : *finding.rejected) {
    if (out.rejected.size() == base::kShown.page_causes) break;
    out.rejected.push_back({cause.name, "", cause.unexplained, {}});
  }
}

// "layers.0.attn" of the id "0/1/output/layers.0.attn/0/0".
std::string name_of_id(const std::string& id) {
  std::size_t begin = 0;
  for (int i = 0; i < 3 && begin != std::string::npos; ++i) {
    begin = id.find('/', begin);
    if (begin != std::string::npos) ++begin;
  }
  const std::size_t call = id.rfind('/', id.rfind('/') - 1);
  if (begin == std::string::npos || call == std::string::npos || call < begin) return id;
  return id.substr(begin, call - begin);
}

void add_facts(const AnsweredFinding& finding, PageFinding& out) {
  const auto add = [&out](const char* label, const std::string& value) {
    if (!value.empty()) out.facts.emplace_back(label, value);
  };
  const bool in_module = !finding.place || finding.place->kind == "module";
  if (in_module && finding.here.value_or(false)) {
    add("here", "the bug is inside " + (finding.module.empty() ? "this module" : finding.module));
  }
  add("local", finding.local);
  add("where", finding.where);
  add("parts", finding.parts);
  add("values", finding.values);
  if (finding.ranks) add("ranks", ranks_text(*finding.ranks));
  add("shards", finding.merged);
  add("record next", finding.record_next);
  add("upstream", finding.upstream);
  if (const std::uint64_t after = finding.downstream_total.value_or(0); after > 0) {
    add("downstream", base::plural(after, "tensor"));
  }
  add("next", finding.next);
}

PageFinding setting_finding(const AnsweredFinding& finding) {
  PageFinding out;
  out.id = finding.id;
  out.outcome = "setting";
  out.phase = "optimizer";
  out.place = "the optimizer";
  out.title = concat(finding.setting->name, " of ",
                     base::plural(finding.parameters_total.value_or(0), "parameter"));
  out.facts = {{"reference", finding.setting->reference},
               {"candidate", finding.setting->candidate}};
  out.members = finding.members.value_or(std::vector<std::string>{});
  return out;
}

std::string page_title(const answer::CountedFinding& counted) {
  const AnsweredFinding& finding = *counted.finding;
  if (counted.group == nullptr && !finding.one_sided.empty()) {
    return concat(finding.outcome, ": ", finding.one_sided);
  }
  return counted.heading();
}

PageFinding page_finding(const answer::CountedFinding& counted) {
  const AnsweredFinding& finding = *counted.finding;
  if (finding.setting) return setting_finding(finding);
  PageFinding out;
  out.id = finding.id;
  out.outcome = finding.outcome;
  out.title = page_title(counted);
  out.members = finding.members.value_or(std::vector<std::string>{});
  if (counted.group != nullptr) {
    out.members = counted.group->findings;
    const auto shown = std::find(out.members.begin(), out.members.end(), counted.group->shown);
    if (shown != out.members.end()) std::rotate(out.members.begin(), shown, shown + 1);
  }
  out.phase = finding.phase;
  out.place = place_in_words(finding);
  if (finding.source) {
    out.code = finding.source->class_name;
    const std::string& called_at = finding.source->called_at;
    if (!called_at.empty()) out.code += (out.code.empty() ? "" : ", ") + called_at;
  }
  add_facts(finding, out);
  out.depends_on = finding.depends_on.value_or(std::vector<std::string>{});
  std::set<std::string> before;
  for (const std::string& id : out.depends_on) before.insert(name_of_id(id));
  constexpr std::size_t kLongestPath = 3;
  if (before.size() <= kLongestPath) out.path.assign(before.begin(), before.end());
  if (finding.replica_classes) out.replica_classes = *finding.replica_classes;
  add_page_causes(finding, out);
  for (const AnsweredTensor::Shard& shard : finding.shards) {
    if (out.shards.size() == kMostShards) break;
    out.shards.push_back(
        {shard.hull.origin, shard.hull.extent, shard.ranks, shard.error, shard.share.value_or(0)});
  }
  for (const AnsweredTensor::Check& check : finding.checks) {
    if (out.checks.size() == base::kShown.page_checks) break;
    out.checks.push_back({check.operation + (check.id.empty() ? "" : " of " + check.id),
                          check.result, check.expected, check.reason, check.error, check.bound});
  }
  return out;
}

// The check that used most of its bound.
void add_share_of_bound(const AnsweredTensor& tensor, PageTensor& out) {
  out.used.reset();
  for (const AnsweredTensor::Check& check : tensor.checks) {
    if (!check.error || !check.bound || check.result == "not_replayable") continue;
    const double none = *check.error == 0 ? 0 : std::numeric_limits<double>::infinity();
    const double used = *check.bound > 0 ? *check.error / *check.bound : none;
    if (out.used && used <= *out.used) continue;
    out.used = used;
    out.error = check.error;
    out.allowed = check.bound;
    out.rule = check.operation;
  }
}

PageTensor page_tensor(const AnsweredTensor& tensor) {
  PageTensor out;
  out.id = tensor.id;
  out.step = tensor.key.step;
  out.microbatch = tensor.key.microbatch;
  out.kind = kind_name(tensor.key.kind);
  out.name = tensor.key.name;
  out.call = tensor.key.call;
  out.copy = tensor.key.copy;
  out.phase = tensor.phase;
  out.module = tensor.module;
  out.layer = tensor.layer;
  out.outcome = tensor.outcome;
  if (tensor.shape) out.shape = shape_text(*tensor.shape);
  out.dtype = tensor.dtype;
  out.reason = tensor.reason;
  out.known = tensor.known;
  out.used = tensor.used;
  if (tensor.numbers) {
    out.rule = tensor.numbers->rule;
    out.error = tensor.numbers->error;
    out.eps = tensor.numbers->error_in_eps;
    out.allowed = tensor.numbers->allowed;
  } else {
    add_share_of_bound(tensor, out);
  }
  out.alarming = answer::is_wrong(out.outcome) && !out.known;
  return out;
}

void add_counts(const Answer& told, PageAnswer& out) {
  if (told.counts) {
    for (const auto& [outcome, count] : *told.counts) {
      if (outcome != "total" && count > 0) out.counts.emplace_back(outcome, count);
    }
    return;
  }
  std::map<std::string, std::uint64_t> counts;
  if (told.results) {
    for (const AnsweredTensor& tensor : *told.results) ++counts[tensor.outcome];
  } else {
    for (const AnsweredFinding& finding : told.findings) ++counts[finding.outcome];
  }
  out.counts.assign(counts.begin(), counts.end());
}

// Adds to each finding the known difference that excuses it, and to each known difference that
// excuses nothing the reason.
void add_known_differences(const Answer& told, PageAnswer& out) {
  if (!told.known) return;
  std::vector<std::string> sentences;
  for (const Answer::Known& one : *told.known) {
    sentences.push_back(concat(one.id.empty() ? one.pattern : one.id, ", ", one.owner, ", until ",
                               one.expires, ": ", one.reason));
    if (one.state == "matched") continue;
    out.remarks.push_back(concat("known difference ", sentences.back(), ": ", words(one.state),
                                 one.why.empty() ? "" : ", ", one.why));
  }
  std::map<std::string, std::uint64_t> by_id;
  for (const AnsweredFinding& finding : told.findings) {
    if (finding.known) by_id.emplace(finding.id, *finding.known);
  }
  for (PageFinding& finding : out.findings) {
    const auto by = by_id.find(finding.id);
    if (by == by_id.end() || by->second >= sentences.size()) continue;
    finding.known = true;
    finding.facts.emplace(finding.facts.begin(), "known", sentences[by->second]);
  }
}

}  // namespace

std::string place_in_words(const AnsweredFinding& finding) {
  if (!finding.place) return "";
  const auto& [kind, of] = *finding.place;
  if (kind == "module") return of;
  if (kind == "between") return concat("between the modules of ", of);
  if (kind != "synchronisation") return concat("the ", kind);
  return concat("the gradient synchronisation", of.empty() ? "" : " over ", of);
}

std::string verdict_in_words(const PageAnswer& answer) {
  const std::string verdict = capitals(answer.verdict);
  if (answer.but_for_known == 0) return verdict;
  return concat(verdict, " but for ", answer.but_for_known, " known");
}

PageAnswer page_answer_of(const Answer& told) {
  PageAnswer out;
  out.command = told.command;
  out.verdict = told.verdict;
  out.exit_code = told.exit_code;
  out.but_for_known = told.but_for_known.value_or(0);
  out.headline = told.headline;
  out.has_all_tensors = told.detail != "findings";
  out.made_by = {
      {"ttrace", told.environment.version},
      {"computed by", concat(told.environment.backend, " ", told.environment.instruction_set)},
      {"took", base::short_number(told.environment.seconds) + " s"}};
  out.counted_as = told.results ? "tensors" : "findings";
  add_run("reference", told.reference, told.identity.reference, out);
  add_run("candidate", told.candidate, told.identity.candidate, out);
  add_run("run", told.run, told.identity.run, out);
  const std::optional<Answer::Run>& checked = told.run ? told.run : told.candidate;
  if (checked && told.results) {
    for (const Answer::Axis& axis : checked->mesh) out.mesh.push_back({axis.name, axis.size});
    out.mesh_ranks = checked->mesh_ranks;
  }
  out.repeat = command_line(told);
  out.remarks = remarks_of(told);
  add_counts(told, out);
  for (const answer::CountedFinding& counted : counted_findings(told)) {
    out.findings.push_back(page_finding(counted));
  }
  if (told.results) {
    for (const AnsweredTensor& tensor : *told.results) out.tensors.push_back(page_tensor(tensor));
  }
  add_known_differences(told, out);
  return out;
}

}  // namespace ttrace::report
