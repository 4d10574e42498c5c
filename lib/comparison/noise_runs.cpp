#include "comparison/noise_runs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "base/error.h"
#include "base/message.h"
#include "base/text.h"
#include "comparison/measure_pairs.h"
#include "comparison/shown_precision.h"
#include "judge/noise_rule.h"
#include "judge/slices.h"
#include "trace/manifest.h"

namespace ttrace::comparison {
namespace {

using base::printable;
using base::render;
using trace::Kind;
using trace::TensorKey;

// Says what a noise run is after what is wrong with this one.
template <typename... Parts>
base::InputError noise_run_error(const trace::Source& run, const Parts&... parts) {
  return base::input_error(
      run.path(), ": ", parts...,
      "; a noise run is the reference itself, run again with TTRACE_NOISE set to a seed");
}

void require_another_run(const trace::Source& run, const trace::Source& other,
                         std::string_view other_is, std::string_view again = "") {
  if (!is_same_run(run, other)) return;
  throw noise_run_error(run, "is given as a noise run and is the ", other_is, " ", other.path(),
                        again);
}

// Whether a tensor of this kind exists only where its module ran.
bool needs_its_module_to_run(Kind kind) {
  return kind == Kind::kInput || kind == Kind::kOutput || kind == Kind::kGradOutput ||
         kind == Kind::kGradInput || kind == Kind::kParamGrad || kind == Kind::kMainGrad;
}

// Which modules ran in a step and micro-batch, by their inputs and outputs.
class ModulesRun {
 public:
  explicit ModulesRun(const trace::Manifest& manifest) {
    for (const trace::TensorEntry& entry : manifest.tensors) {
      const TensorKey& key = entry.key;
      if (key.kind != Kind::kInput && key.kind != Kind::kOutput) continue;
      const std::string module(trace::module_of_value(key.name));
      ran_.emplace(key.step, key.microbatch, module);
      alike_.emplace(key.step, key.microbatch, judge::name_pattern(module));
    }
  }

  // Whether the module of `key` did not run although modules did whose names differ from its own in
  // a number only: an expert that no token was routed to.
  bool left_out(const TensorKey& key) const {
    const std::string module = trace::module_of(key);
    const std::string pattern = judge::name_pattern(module);
    if (!needs_its_module_to_run(key.kind) || pattern == module) return false;
    return !has(ran_, key, module) && has(alike_, key, pattern);
  }

 private:
  using Place = std::tuple<std::uint64_t, std::optional<std::uint64_t>, std::string>;

  static bool has(const std::set<Place>& places, const TensorKey& key, const std::string& name) {
    if (key.microbatch) return places.contains({key.step, key.microbatch, name});
    return std::any_of(places.begin(), places.end(), [&](const Place& place) {
      return std::get<0>(place) == key.step && std::get<2>(place) == name;
    });
  }

  std::set<Place> ran_;
  std::set<Place> alike_;
};

// Whether the run has each of the tensor's micro-batches as a tensor.
bool has_parts(const std::set<TensorKey>& there, const trace::TensorEntry& entry) {
  if (!entry.microbatches) return false;
  const std::vector<std::uint64_t>& numbers = entry.microbatches->numbers;
  return std::all_of(numbers.begin(), numbers.end(), [&](std::uint64_t number) {
    TensorKey part = entry.key;
    part.microbatch = number;
    return there.contains(part);
  });
}

// Counts the reference's tensors that a run lacks, by reason.
struct LackingTensors {
  std::size_t not_recorded = 0;  // it was asked not to record them, or has none of the kind
  std::size_t not_run = 0;       // of a numbered module that did not run, where similar ones did
  std::size_t missing = 0;
  std::string first_missing;
};

LackingTensors lacking_tensors(const trace::Manifest& reference, const trace::Manifest& run) {
  std::set<TensorKey> there;
  std::set<Kind> kinds;
  for (const trace::TensorEntry& entry : run.tensors) {
    there.insert(entry.key);
    kinds.insert(entry.key.kind);
  }
  const ModulesRun modules(run);
  LackingTensors found;
  for (const trace::TensorEntry& entry : reference.tensors) {
    if (entry.key.kind == Kind::kIndex || there.contains(entry.key)) continue;
    if (has_parts(there, entry)) continue;
    // If the manifest does not say what was to be recorded, a kind without tensors was not.
    const bool asked =
        trace::was_asked_for(run, entry.key).value_or(kinds.contains(entry.key.kind)) &&
        trace::incomplete_of(run, entry.key) == nullptr;
    if (!asked) {
      ++found.not_recorded;
    } else if (modules.left_out(entry.key)) {
      ++found.not_run;
    } else if (++found.missing == 1) {
      found.first_missing = to_string(entry.key);
    }
  }
  return found;
}

// ε of the coarsest type that the reference computes in; 0 if it has no floating-point tensor.
double rounding_of(const trace::Manifest& reference) {
  const auto coarsest = coarsest_computed(reference);
  return coarsest ? tensor::epsilon(*coarsest) : 0;
}

void check_perturbation(const trace::Source& reference, const trace::Source& run) {
  const double rounding = rounding_of(reference.manifest());
  const double epsilon = run.manifest().run.noise->epsilon;
  if (!(rounding > 0) || epsilon <= kMostRoundings * rounding) return;
  throw noise_run_error(run, "was perturbed by ", base::short_number(epsilon), ", which is ",
                        base::short_number(epsilon / rounding), " times ε of ",
                        dtype_name(*coarsest_computed(reference.manifest())),
                        ", the coarsest type that the reference shows, and no rounding");
}

void check_tensors(const trace::Source& reference, const trace::Source& run,
                   std::vector<std::string>& warnings) {
  const LackingTensors found = lacking_tensors(reference.manifest(), run.manifest());
  if (found.missing > 0) {
    throw noise_run_error(run, "lacks ", base::plural(found.missing, "tensor"),
                          " of the reference (first ", printable(found.first_missing),
                          "), so it is a run of another model, or was cut short");
  }
  if (found.not_recorded > 0) {
    warnings.push_back(
        render({"{run}: {count:tensor} of the reference {count?is|are} not in this noise run, "
                "which did not record them, so other runs or the fallback rule judge them",
                {{"run", run.path()}, {"count", found.not_recorded}}}));
  }
  if (found.not_run > 0) {
    warnings.push_back(render(
        {"{run}: {count:tensor} of the reference {count?is|are} not in this noise run, since their "
         "modules did not run in it, so other runs or the fallback rule judge them",
         {{"run", run.path()}, {"count", found.not_run}}}));
  }
  const auto& tensors = run.manifest().tensors;
  const bool has_parameters = std::any_of(tensors.begin(), tensors.end(), [](const auto& entry) {
    return entry.key.kind == Kind::kParam;
  });
  if (has_parameters) return;
  warnings.push_back(
      render({"{run}: has no parameters, so whether it is a run of this reference cannot be "
              "checked; record the kind param too",
              {{"run", run.path()}}}));
}

// Returns 0 without any tensors.
std::uint64_t first_step_of(const trace::Manifest& manifest) {
  const auto first =
      std::min_element(manifest.tensors.begin(), manifest.tensors.end(),
                       [](const auto& a, const auto& b) { return a.key.step < b.key.step; });
  return first == manifest.tensors.end() ? 0 : first->key.step;
}

}  // namespace

bool is_reached_by_noise(Kind kind) {
  return kind != Kind::kParam && kind != Kind::kOptimizerState && kind != Kind::kInput &&
         kind != Kind::kIndex;
}

bool is_same_run(const trace::Source& a, const trace::Source& b) {
  const std::string& id = a.manifest().run.id;
  if (!id.empty() && id == b.manifest().run.id) return true;
  const std::string files = a.identity();
  return !files.empty() && files == b.identity();
}

NoiseRuns check_noise_runs(const trace::Source& reference, const trace::Source& candidate,
                           const std::vector<const trace::Source*>& noise) {
  NoiseRuns found;
  for (const auto* run : {&reference, &candidate}) {
    if (!run->manifest().run.noise || (run == &candidate && &candidate == &reference)) continue;
    found.warnings.push_back(
        render({"{run} is a perturbed run (seed {seed}), good only for --noise; give the clean run "
                "instead",
                {{"run", run->path()}, {"seed", run->manifest().run.noise->seed}}}));
  }
  std::map<std::uint64_t, std::string> seeds;
  for (const trace::Source* run : noise) {
    require_another_run(*run, reference, "reference");
    require_another_run(*run, candidate, "candidate");
    for (const trace::Source* other : found.runs) {
      require_another_run(*run, *other, "noise run", " again");
    }
    check_tensors(reference, *run, found.warnings);
    const auto& facts = run->manifest().run.noise;
    if (facts) check_perturbation(reference, *run);
    if (!facts) {
      found.warnings.push_back(
          render({"{run} does not say that it was perturbed (run.noise); a noise run is the "
                  "reference itself, run again with TTRACE_NOISE set to a seed",
                  {{"run", run->path()}}}));
    } else if (const auto [earlier, fresh] = seeds.emplace(facts->seed, run->path()); !fresh) {
      found.warnings.push_back(
          render({"{run} and {other} were perturbed with the same seed {seed}, so they count as "
                  "one run; run one of them again with another seed",
                  {{"run", run->path()}, {"other", earlier->second}, {"seed", facts->seed}}}));
      continue;
    }
    found.runs.push_back(run);
  }
  return found;
}

NoiseDifferences::NoiseDifferences(const trace::Manifest& reference)
    : first_step_(first_step_of(reference)), rounding_(rounding_of(reference)) {}

bool& NoiseDifferences::any_of(const trace::Source* run) {
  const auto known =
      std::find_if(runs_.begin(), runs_.end(), [run](const OfRun& one) { return one.run == run; });
  return known != runs_.end() ? known->any : runs_.emplace_back(OfRun{run, false}).any;
}

void NoiseDifferences::add(const Pair& pair, const judge::NoiseEstimate& noise) {
  const std::vector<double>& norms = noise.norms;
  const bool is_first_step = pair.key.step == first_step_;
  const bool is_parameter = pair.key.kind == Kind::kParam && is_first_step;
  const double most = kMostOfFirstOutput * rounding_ * noise.reference_norm;
  for (std::size_t i = 0; i < pair.noise.size() && i < norms.size(); ++i) {
    const trace::Source* run = pair.noise[i].source;
    if (is_parameter && norms[i] != 0) {
      throw noise_run_error(
          *run, printable(to_string(pair.key)), " differs by ", base::short_number(norms[i]),
          " (norm) from the reference's, and a noise run starts from the very same parameters");
    }
    const auto& facts = run->manifest().run.noise;
    const bool is_perturbed = pair.key.kind == Kind::kOutput && is_first_step && facts &&
                              pair.key.name == facts->at && pair.key.call == 0;
    if (is_perturbed && most > 0 && norms[i] > most) {
      throw noise_run_error(
          *run, printable(to_string(pair.key)), ", which it says was perturbed, differs by ",
          base::short_number(norms[i] / noise.reference_norm), " of its norm, ",
          base::short_number(norms[i] / noise.reference_norm / rounding_),
          " times ε of the coarsest type that the reference shows, and no rounding does that");
    }
    if (!is_reached_by_noise(pair.key.kind)) continue;
    bool& any = any_of(run);
    any = any || norms[i] != 0;
  }
}

void NoiseDifferences::require_some() const {
  for (const OfRun& one : runs_) {
    if (one.any) continue;
    throw noise_run_error(*one.run,
                          "equals the reference bit by bit, so nothing in it was perturbed");
  }
}

void check_measured_noise(const trace::Source& reference,
                          const std::vector<TensorComparison>& results) {
  NoiseDifferences differences(reference.manifest());
  bool complete = true;
  for (const TensorComparison& result : results) {
    if (result.comparison && result.comparison->noise) {
      differences.add(result, *result.comparison->noise);
    } else if (!result.noise.empty() && is_reached_by_noise(result.key.kind)) {
      complete = complete && result.exact;
    }
  }
  if (complete) differences.require_some();
}

namespace {

using base::printable;

template <typename... Parts>
base::InputError calibration_error(const std::string& file, const Parts&... parts) {
  return base::input_error(
      file, ": ", parts...,
      "; it belongs to another model, step or precision: run `ttrace calibrate` on this reference");
}

// Relative: a calibration keeps fewer digits than a sum has.
constexpr double kSameNorm = 1e-6;

// Returns the manifest of a run that has the calibrated tensors alone.
trace::Manifest calibrated_tensors(const judge::Calibration& calibration) {
  trace::Manifest manifest;
  for (const auto& [key, tensor] : calibration.tensors) {
    trace::TensorEntry entry;
    entry.key = key;
    manifest.tensors.push_back(std::move(entry));
  }
  return manifest;
}

void require_same_shapes(const trace::Manifest& reference, const judge::Calibration& calibration,
                         const std::string& file) {
  for (const trace::TensorEntry& entry : reference.tensors) {
    const auto found = calibration.tensors.find(entry.key);
    if (found == calibration.tensors.end() || calibrated(calibration, entry) != nullptr) continue;
    throw calibration_error(file, "calibrates ", printable(to_string(entry.key)), " as ",
                            tensor::to_string(found->second.shape), " ",
                            dtype_short_name(found->second.dtype), ", and the reference has ",
                            tensor::to_string(entry.shape), " ", dtype_short_name(entry.dtype));
  }
}

}  // namespace

std::vector<std::string> calibration_warnings(const trace::Manifest& reference,
                                              const judge::Calibration& calibration,
                                              const std::string& file) {
  if (calibration.tensors.empty()) return {};
  trace::Manifest floating;
  std::set<std::uint64_t> steps;
  for (const auto& [key, tensor] : calibration.tensors) steps.insert(key.step);
  std::size_t other_steps = 0;
  for (const trace::TensorEntry& entry : reference.tensors) {
    if (!tensor::is_floating(entry.dtype)) continue;
    if (!steps.contains(entry.key.step)) ++other_steps;
    floating.tensors.push_back(entry);
  }
  if (other_steps == floating.tensors.size()) {
    throw calibration_error(file, "calibrates none of the reference's tensors");
  }
  std::erase_if(floating.tensors,
                [&](const auto& entry) { return !steps.contains(entry.key.step); });
  const LackingTensors lacking = lacking_tensors(floating, calibrated_tensors(calibration));
  if (lacking.missing == floating.tensors.size()) {
    throw calibration_error(file, "calibrates none of the reference's tensors (first ",
                            printable(lacking.first_missing), ")");
  }
  if (lacking.missing > 0) {
    throw calibration_error(file, "lacks ", base::plural(lacking.missing, "tensor"),
                            " of the reference (first ", printable(lacking.first_missing), ")");
  }
  require_same_shapes(reference, calibration, file);
  const std::size_t without = lacking.not_recorded + lacking.not_run + other_steps;
  if (without == 0) return {};
  const std::size_t all = floating.tensors.size() + other_steps;
  return {
      render({"{file} calibrates {calibrated} of the reference's {all} floating-point tensors; the "
              "fallback rule judges the others: {not_recorded} of kinds and {other_steps} of steps "
              "that it has nothing of, {not_run} of modules that did not run",
              {{"file", file},
               {"calibrated", all - without},
               {"all", all},
               {"not_recorded", lacking.not_recorded},
               {"other_steps", other_steps},
               {"not_run", lacking.not_run}}})};
}

void check_calibrated_parameters(const trace::Manifest& reference,
                                 const judge::Calibration& calibration, const std::string& file,
                                 const std::vector<TensorComparison>& results) {
  const std::uint64_t first_step = first_step_of(reference);
  for (const TensorComparison& result : results) {
    if (result.key.kind != trace::Kind::kParam || result.key.step != first_step) continue;
    if (!result.comparison || !result.noise.empty()) continue;
    const auto* stored = std::get_if<layout::Stored>(&result.reference->how);
    const auto* known = stored != nullptr ? calibrated(calibration, *stored->entry) : nullptr;
    if (known == nullptr) continue;
    const std::string name = printable(to_string(result.key));
    if (known->noise.norm() != 0) {
      throw calibration_error(file, name, " differed between the runs that it was made of, ",
                              "and all of them start from the same parameters");
    }
    const double norm = measure::reference_norm(result.comparison->measurement.total);
    if (!(std::abs(norm - known->noise.reference_norm) <= kSameNorm * std::abs(norm))) {
      throw calibration_error(
          file, name, " had the norm ", base::short_number(known->noise.reference_norm),
          " when it was made, and has ", base::short_number(norm), " in this reference");
    }
  }
}

}  // namespace ttrace::comparison
