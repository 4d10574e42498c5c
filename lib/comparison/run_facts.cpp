#include "comparison/run_facts.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/message.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "layout/absent_shards.h"
#include "layout/layout_problems.h"
#include "layout/mesh.h"
#include "layout/plan.h"

namespace ttrace::comparison {

void require_sound_layouts(const trace::Source& source) {
  const std::vector<std::string> problems = layout::layout_problems(source.manifest());
  if (problems.empty()) return;
  throw base::input_error(source.path(), ": the manifest contradicts itself: ", problems[0],
                          problems.size() == 1 ? ""
                                               : base::concat("; and ", problems.size() - 1,
                                                              " more, listed by `ttrace lint`"));
}

LostRanks lost_ranks_of(const trace::Source& source) {
  // A limit, because a manifest may claim a million ranks that have no files.
  constexpr std::size_t kMostNamed = 100;
  LostRanks lost;
  for (const std::uint64_t rank : layout::ranks_of(source.manifest())) {
    auto problem = source.rank_problem(rank);
    if (!problem) continue;
    lost.unreadable.push_back(rank);
    if (lost.problems.size() < kMostNamed) lost.problems.push_back(*std::move(problem));
  }
  if (const std::size_t more = lost.unreadable.size() - lost.problems.size(); more > 0) {
    lost.problems.push_back(base::render(
        {"{file}: {more} more ranks cannot be read", {{"file", source.path()}, {"more", more}}}));
  }
  if (!lost.unreadable.empty()) {
    lost.text = base::render(
        {"{ranks} cannot be read", {{"ranks", layout::describe_ranks(lost.unreadable)}}});
  } else if (const auto& open = source.manifest().run.unfinished; !open.empty()) {
    lost.text = base::render({"{ranks} did not close {count?its file|their files}",
                              {{"ranks", layout::describe_ranks(open)}, {"count", open.size()}}});
  }
  return lost;
}

Absences absences_of(const trace::Source& source, const LostRanks& lost) {
  const std::uint64_t ranks = layout::ranks_of(source.manifest()).size();
  Absences absences;
  for (layout::AbsentShards& absent : layout::absent_shards(source.manifest())) {
    std::erase_if(absent.ranks, [&lost](std::uint64_t rank) {
      return std::binary_search(lost.unreadable.begin(), lost.unreadable.end(), rank);
    });
    if (!absent.ranks.empty())
      absences.emplace(absent.key, layout::describe_absence(absent, ranks));
  }
  return absences;
}

namespace {

// Returns what the manifest says of the recording. `commit` and `host` come from `run.extra`, whose
// content is free: values of other types are ignored.
std::vector<std::pair<std::string, std::string>> recording_of(const trace::Source& source) {
  const trace::RunFacts& run = source.manifest().run;
  std::vector<std::pair<std::string, std::string>> facts;
  const auto add = [&facts](const char* name, std::string value) {
    if (!value.empty()) facts.emplace_back(name, std::move(value));
  };
  add("recorded_at", run.created);
  add("command", run.command);
  add("model", run.model);
  add("framework", run.framework);
  add("collector", run.collector);
  if (run.extra_json.empty()) return facts;
  const base::JsonDocument extra(run.extra_json, source.path());
  for (const char* name : {"commit", "host"}) {
    const auto found = extra.root().is_object() ? extra.root().find(name) : std::nullopt;
    if (found && found->is_string()) add(name, found->as_string());
  }
  return facts;
}

}  // namespace

answer::TraceFacts facts_of(const trace::Source& source) {
  const trace::Manifest& manifest = source.manifest();
  answer::TraceFacts facts;
  facts.path = source.path();
  facts.ranks = layout::ranks_of(manifest).size();
  facts.mesh = manifest.meshes.at("").axes;
  facts.mesh_ranks = manifest.meshes.at("").ranks;
  facts.precision = manifest.run.precision;
  facts.run_id = manifest.run.id;
  facts.fingerprint = source.fingerprint();
  facts.recorded = recording_of(source);
  std::set<std::uint64_t> steps;
  for (const trace::TensorEntry& entry : manifest.tensors) steps.insert(entry.key.step);
  facts.steps.assign(steps.begin(), steps.end());
  return facts;
}

void set_execution(const measure::ExecutionContext& execution, answer::Environment& environment) {
  environment.backend = execution.backend->name();
  environment.instruction_set = execution.backend->instruction_set();
  environment.remarks = execution.backend->remarks();
  environment.threads = execution.thread_count();
}

std::vector<std::string> plan_warnings(const trace::Source& reference,
                                       const trace::Source& candidate,
                                       const std::vector<const trace::Source*>& noise) {
  const auto describe_plan = [](const trace::Source& run) {
    const auto& plan = run.manifest().run.plan;
    if (!plan) return base::render({"{run} was not rewritten", {{"run", run.path()}}});
    return base::render({"{run} was rewritten by the plan {digest}",
                         {{"run", run.path()}, {"digest", plan->digest.substr(0, 12)}}});
  };
  std::vector<const trace::Source*> others{&candidate};
  others.insert(others.end(), noise.begin(), noise.end());
  std::vector<std::string> warnings;
  for (const trace::Source* run : others) {
    if (run->manifest().run.plan == reference.manifest().run.plan) continue;
    warnings.push_back(
        base::render({"{one}, {other}; run both with the same plan, or both without one",
                      {{"one", describe_plan(reference)}, {"other", describe_plan(*run)}}}));
  }
  return warnings;
}

std::vector<std::string> run_warnings(const trace::Source& reference,
                                      const trace::Source& candidate,
                                      const std::vector<const trace::Source*>& noise) {
  std::vector<std::string> warnings = plan_warnings(reference, candidate, noise);
  const std::size_t reference_ranks = layout::ranks_of(reference.manifest()).size();
  if (reference_ranks > 1 && layout::ranks_of(candidate.manifest()).size() == 1) {
    warnings.push_back(
        base::render({"the reference {reference} has {ranks} ranks and the candidate {candidate} "
                      "one, so they look swapped: the trusted run on one process comes first",
                      {{"reference", reference.path()},
                       {"ranks", reference_ranks},
                       {"candidate", candidate.path()}}}));
  }
  return warnings;
}

std::vector<trace::Kind> kinds_in_neither(const trace::Manifest& reference,
                                          const trace::Manifest& candidate) {
  using trace::Kind;
  std::vector<Kind> kinds{Kind::kParam,    Kind::kInput,      Kind::kOutput,
                          Kind::kLoss,     Kind::kGradOutput, Kind::kParamGrad,
                          Kind::kMainGrad, Kind::kGradNorm,   Kind::kParamAfterStep};
  for (const trace::Manifest* manifest : {&reference, &candidate}) {
    for (const trace::TensorEntry& entry : manifest->tensors) std::erase(kinds, entry.key.kind);
  }
  return kinds;
}

std::vector<trace::Incomplete> left_out_by_both(const trace::Manifest& reference,
                                                const trace::Manifest& candidate) {
  std::set<std::string_view> theirs;
  for (const trace::Incomplete& one : candidate.run.incomplete) theirs.insert(one.tensors);
  std::vector<trace::Incomplete> both;
  for (const trace::Incomplete& one : reference.run.incomplete) {
    if (theirs.contains(one.tensors)) both.push_back(one);
  }
  return both;
}

std::string unrecorded_main_gradients(const trace::Manifest& reference,
                                      const trace::Manifest& candidate) {
  using trace::Kind;
  const auto has = [](const trace::Manifest& run, Kind kind) {
    return std::any_of(run.tensors.begin(), run.tensors.end(),
                       [kind](const trace::TensorEntry& entry) { return entry.key.kind == kind; });
  };
  if (has(reference, Kind::kMainGrad) || has(candidate, Kind::kMainGrad)) return "";
  for (const auto& [run, name] : {std::pair{&reference, "reference"}, {&candidate, "candidate"}}) {
    const auto& told = run->run.recorded;
    if (told &&
        std::find(told->kinds.begin(), told->kinds.end(), Kind::kMainGrad) == told->kinds.end()) {
      continue;
    }
    const bool raw = has(*run, Kind::kParamGrad);
    if (!raw && run->optimizer.empty()) continue;
    return base::render(
        {"neither run recorded main gradients, and the {side} has {what}, so nothing says what its "
         "optimizer consumed; give trace() the optimizer, or call tracer.main_grads() when the "
         "gradients are final",
         {{"side", name}, {"what", raw ? "raw gradients" : "an optimizer"}}});
  }
  return "";
}

std::set<std::uint64_t> skipped_steps(const trace::Manifest& manifest) {
  std::set<std::uint64_t> steps;
  for (const trace::OptimizerGroup& group : manifest.optimizer) {
    const auto skipped = group.switches.find("skipped");
    if (skipped != group.switches.end() && skipped->second) steps.insert(group.step);
  }
  return steps;
}

std::vector<std::uint64_t> steps_skipped_in_both(const trace::Manifest& reference,
                                                 const trace::Manifest& candidate) {
  const std::set<std::uint64_t> others = skipped_steps(candidate);
  std::vector<std::uint64_t> steps;
  for (const std::uint64_t step : skipped_steps(reference)) {
    if (others.contains(step)) steps.push_back(step);
  }
  return steps;
}

}  // namespace ttrace::comparison
