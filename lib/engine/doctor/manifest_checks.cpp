#include "engine/doctor/manifest_checks.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/text.h"
#include "comparison/noise_runs.h"
#include "comparison/run_facts.h"
#include "layout/mesh.h"
#include "localize/microbatch_mismatch.h"

namespace ttrace::engine::doctor {
namespace {

using base::concat;
using trace::Kind;

std::set<std::uint64_t> steps_of(const trace::Manifest& manifest) {
  std::set<std::uint64_t> steps;
  for (const trace::TensorEntry& entry : manifest.tensors) steps.insert(entry.key.step);
  return steps;
}

std::string in_words(const std::set<std::uint64_t>& numbers) {
  return base::numbers_in_words(std::vector<std::uint64_t>(numbers.begin(), numbers.end()));
}

std::set<Kind> kinds_of(const trace::Manifest& manifest) {
  std::set<Kind> kinds;
  for (const trace::TensorEntry& entry : manifest.tensors) kinds.insert(entry.key.kind);
  return kinds;
}

std::set<std::string> names_of_kind(const trace::Manifest& manifest, Kind kind) {
  std::set<std::string> names;
  for (const trace::TensorEntry& entry : manifest.tensors) {
    if (entry.key.kind == kind) names.insert(entry.key.name);
  }
  return names;
}

std::string names_of(const std::set<Kind>& kinds) {
  std::string text;
  for (const Kind kind : kinds) text += concat(text.empty() ? "" : ", ", kind_name(kind));
  return text;
}

std::string ranks_in_words(const trace::Source& run) {
  return base::plural(layout::ranks_of(run.manifest()).size(), "rank");
}

std::string joined(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& one : sentences) text += concat(text.empty() ? "" : "; ", one);
  return text;
}

}  // namespace

std::vector<std::uint64_t> common_steps(const Runs& runs) {
  const std::set<std::uint64_t> others = steps_of(runs.candidate.manifest());
  std::vector<std::uint64_t> common;
  for (const std::uint64_t step : steps_of(runs.reference.manifest())) {
    if (others.contains(step)) common.push_back(step);
  }
  return common;
}

std::optional<Found> check_sides(const Runs& runs) {
  const trace::Source& reference = runs.reference;
  const trace::Source& candidate = runs.candidate;
  if (comparison::is_same_run(reference, candidate)) {
    return Found{Health::kWrong, concat(candidate.path(),
                                        " is the reference itself, which agrees with itself "
                                        "whatever is wrong; give the run to check")};
  }
  for (const trace::Source* run : {&reference, &candidate}) {
    if (!run->manifest().run.noise) continue;
    return Found{Health::kWrong, concat(run->path(), " is a noise run; give it to --noise")};
  }
  if (layout::ranks_of(reference.manifest()).size() > 1 &&
      layout::ranks_of(candidate.manifest()).size() == 1) {
    return Found{Health::kWrong,
                 concat("the reference has ", ranks_in_words(reference),
                        " and the candidate one, so they look swapped: the trusted run on one "
                        "process comes first")};
  }
  return Found{Health::kFine, concat("reference on ", ranks_in_words(reference), ", candidate on ",
                                     ranks_in_words(candidate))};
}

std::optional<Found> check_layouts(const Runs& runs) {
  comparison::require_sound_layouts(runs.reference);
  comparison::require_sound_layouts(runs.candidate);
  return Found{Health::kFine, "the placements add up"};
}

std::optional<Found> check_ranks(const Runs& runs) {
  for (const trace::Source* run : {&runs.reference, &runs.candidate}) {
    const comparison::LostRanks lost = comparison::lost_ranks_of(*run);
    if (lost.text.empty()) continue;
    return Found{Health::kWrong,
                 concat(run->path(), ": ", lost.problems.empty() ? lost.text : lost.problems[0],
                        "; let every rank end, or call tracer.close() before it is killed")};
  }
  return Found{Health::kFine, "every rank has its file, whole"};
}

std::optional<Found> check_stale_files(const Runs& runs) {
  const std::vector<std::string>& strays = runs.options.strays;
  if (strays.empty()) return Found{Health::kFine, "no files of other runs among them"};
  return Found{Health::kWrong, joined(strays)};
}

std::optional<Found> check_steps(const Runs& runs) {
  const std::set<std::uint64_t> reference = steps_of(runs.reference.manifest());
  const std::set<std::uint64_t> candidate = steps_of(runs.candidate.manifest());
  if (reference == candidate && !reference.empty()) {
    return Found{Health::kFine, concat(in_words(reference), " in both")};
  }
  return Found{Health::kWrong,
               concat("the reference has ", reference.empty() ? "none" : in_words(reference),
                      ", the candidate ", candidate.empty() ? "none" : in_words(candidate),
                      "; record the same with TTRACE_STEPS")};
}

std::optional<Found> check_microbatches(const Runs& runs) {
  const trace::Manifest& reference = runs.reference.manifest();
  const trace::Manifest& candidate = runs.candidate.manifest();
  auto mismatch = localize::lacking_microbatches(reference, candidate);
  if (!mismatch) {
    mismatch = localize::lacking_microbatches(candidate, reference);
    if (mismatch) std::swap(mismatch->reference, mismatch->candidate);
  }
  if (mismatch) {
    return Found{Health::kWrong, concat(localize::describe_mismatch(*mismatch), " (",
                                        localize::describe_numbers(*mismatch), "); ",
                                        localize::remedy_of(*mismatch))};
  }
  std::set<std::uint64_t> numbers;
  for (const trace::TensorEntry& entry : candidate.tensors) {
    if (entry.key.microbatch) numbers.insert(*entry.key.microbatch);
  }
  if (numbers.empty()) return std::nullopt;
  return Found{Health::kFine, concat(in_words(numbers), " in both")};
}

std::optional<Found> check_names(const Runs& runs) {
  for (const Kind kind : {Kind::kParam, Kind::kOutput}) {
    const std::set<std::string> reference = names_of_kind(runs.reference.manifest(), kind);
    const std::set<std::string> candidate = names_of_kind(runs.candidate.manifest(), kind);
    if (reference.empty() || candidate.empty()) continue;
    const auto is_in_both = [&](const std::string& name) { return candidate.contains(name); };
    if (std::any_of(reference.begin(), reference.end(), is_in_both)) return std::nullopt;
    return Found{Health::kWrong,
                 concat("no ", kind_name(kind), " has the same name in both (", *reference.begin(),
                        " and ", *candidate.begin(),
                        "); `ttrace compare REF RUN --map-starter map.json` writes rules that pair "
                        "them, for --map")};
  }
  return std::nullopt;
}

std::optional<Found> check_kinds(const Runs& runs) {
  const std::set<Kind> reference = kinds_of(runs.reference.manifest());
  const std::set<Kind> candidate = kinds_of(runs.candidate.manifest());
  constexpr std::array kNeeded{Kind::kParam, Kind::kOutput, Kind::kLoss, Kind::kMainGrad};
  std::set<Kind> lacking;
  for (const Kind kind : kNeeded) {
    if (!reference.contains(kind) || !candidate.contains(kind)) lacking.insert(kind);
  }
  if (!lacking.empty()) {
    const std::string problem =
        comparison::unrecorded_main_gradients(runs.reference.manifest(), runs.candidate.manifest());
    return Found{Health::kWrong,
                 !problem.empty()
                     ? problem
                     : concat("not recorded by both: ", names_of(lacking),
                              "; leave TTRACE_KINDS out, call tracer.loss(loss), and give "
                              "trace() the optimizer")};
  }
  std::set<Kind> one_sided;
  std::set_symmetric_difference(reference.begin(), reference.end(), candidate.begin(),
                                candidate.end(), std::inserter(one_sided, one_sided.end()));
  std::erase_if(one_sided, [](Kind kind) { return kind == Kind::kIndex || kind == Kind::kScalar; });
  if (!one_sided.empty()) {
    return Found{Health::kNote,
                 concat("recorded by one run alone, and not compared: ", names_of(one_sided))};
  }
  return Found{Health::kFine, concat(candidate.size(), " kinds, the same in both")};
}

std::optional<Found> check_labels(const Runs& runs) {
  const auto has = [](const trace::Source& run) {
    return std::any_of(run.manifest().tensors.begin(), run.manifest().tensors.end(),
                       [](const trace::TensorEntry& entry) {
                         return entry.key.kind == Kind::kScalar && entry.key.microbatch &&
                                entry.key.name != "loss.factor";
                       });
  };
  if (has(runs.reference) && has(runs.candidate)) {
    return Found{Health::kFine, "what the loss is computed from is recorded"};
  }
  return Found{Health::kNote,
               "nothing that the loss is computed from is recorded: compare does without, audit "
               "cannot judge a loss outside of the model then; tracer.loss(loss, labels=labels)"};
}

std::optional<Found> check_precision(const Runs& runs) {
  const std::string& reference = runs.reference.manifest().run.precision;
  const std::string& candidate = runs.candidate.manifest().run.precision;
  if (reference.empty() && candidate.empty()) return std::nullopt;
  if (reference != candidate) {
    return Found{Health::kNote,
                 concat("the reference is ", reference.empty() ? "of no one type" : reference,
                        ", the candidate ", candidate.empty() ? "of no one type" : candidate,
                        ": the coarser one decides what shows; trace both in one")};
  }
  if (reference == "fp32" || reference == "float32") return Found{Health::kFine, reference};
  return Found{Health::kNote, concat(reference,
                                     "; in fp32 the same check is some five orders of "
                                     "magnitude sharper")};
}

std::optional<Found> check_plans(const Runs& runs) {
  const std::vector<std::string> warnings =
      comparison::plan_warnings(runs.reference, runs.candidate, runs.noise);
  if (warnings.empty()) return std::nullopt;
  return Found{Health::kWrong, joined(warnings)};
}

std::optional<Found> check_noise(const Runs& runs) {
  if (runs.noise.empty()) {
    return Found{Health::kNote,
                 "none, so a rule of thumb decides what is allowed; run the reference three times "
                 "more with TTRACE_NOISE=1, 2 and 3, and give them to --noise"};
  }
  const comparison::NoiseRuns checked =
      comparison::check_noise_runs(runs.reference, runs.candidate, runs.noise);
  if (!checked.warnings.empty()) return Found{Health::kNote, joined(checked.warnings)};
  return Found{Health::kFine, concat(base::plural(checked.runs.size(), "run"),
                                     " of this reference, each with its own seed")};
}

}  // namespace ttrace::engine::doctor
