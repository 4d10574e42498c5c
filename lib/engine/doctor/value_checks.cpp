#include "engine/doctor/value_checks.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "comparison/random_draws.h"
#include "engine/compare_traces.h"
#include "engine/doctor/manifest_checks.h"
#include "layout/mesh.h"
#include "localize/other_start.h"
#include "optimizer/settings.h"

namespace ttrace::engine::doctor {
namespace {

using base::concat;
using judge::Outcome;
using trace::Kind;

constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;  // of parameters
constexpr std::uint64_t kMostOfDropout = std::uint64_t{16} << 20;
constexpr std::size_t kMostDropouts = 8;

std::uint64_t bytes_of(const trace::TensorEntry& entry) {
  return tensor::element_count(entry.shape).value_or(kMostBytes) *
         tensor::element_bytes(entry.dtype);
}

// The parameters of a step and the inputs of the model, by name. A glob's characters in a name
// match themselves.
comparison::Selection selection_of(const trace::Manifest& manifest, std::uint64_t step) {
  comparison::Selection selection;
  selection.steps = {step};
  selection.kinds = {Kind::kParam, Kind::kInput};
  std::set<std::string> names;
  std::uint64_t bytes = 0;
  for (const trace::TensorEntry& entry : manifest.tensors) {
    const trace::TensorKey& key = entry.key;
    if (key.step != step) continue;
    const bool of_model = key.kind == Kind::kInput && trace::module_of(key) == trace::kWholeModel;
    if (key.kind != Kind::kParam && !of_model) continue;
    if (key.kind == Kind::kParam && (bytes += bytes_of(entry)) > kMostBytes) continue;
    names.insert(key.name);
  }
  selection.only.assign(names.begin(), names.end());
  return selection;
}

std::string describe_other_start(const comparison::OtherStart& start) {
  return base::render(localize::describe_start(start));
}

std::uint64_t compared(const Runs& runs, Kind kind) {
  return static_cast<std::uint64_t>(std::count_if(
      runs.start->results.begin(), runs.start->results.end(), [kind](const auto& one) {
        return one.key.kind == kind &&
               (one.outcome == Outcome::kMatch || one.outcome == Outcome::kDiverged);
      }));
}

std::uint64_t diverged(const Runs& runs, Kind kind) {
  return static_cast<std::uint64_t>(std::count_if(
      runs.start->results.begin(), runs.start->results.end(), [kind](const auto& one) {
        return one.key.kind == kind && one.outcome != Outcome::kMatch &&
               one.outcome != Outcome::kSkippedByRule && one.outcome != Outcome::kNotRecorded;
      }));
}

std::optional<Found> check_start(const Runs& runs, Kind kind, comparison::OtherStart::What what,
                                 const char* noun, const char* way_out) {
  if (!runs.start) return Found{Health::kWrong, runs.no_start};
  const auto& start = runs.start->other_start;
  if (start && start->what == what) return Found{Health::kWrong, describe_other_start(*start)};
  const std::uint64_t all = compared(runs, kind);
  const std::uint64_t bad = diverged(runs, kind);
  if (bad > 0) {
    return Found{Health::kWrong, concat(bad, " of ", base::plural(std::max(all, bad), noun),
                                        " differ", bad == 1 ? "s" : "", "; ", way_out)};
  }
  if (all == 0) return Found{Health::kNote, concat("no ", noun, " is recorded by both")};
  if (const auto& late = runs.start->late_start; late && kind == Kind::kParam) {
    return Found{
        Health::kNote,
        base::render({"{count:parameter} {count?agrees|agree} as results of updates, which "
                      "came before step {step}: the start cannot be compared",
                      {{"count", all}, {"step", late->step}}})};
  }
  return Found{Health::kFine, concat(base::plural(all, noun), " agree")};
}

// The bytes of one rank's shard, or nothing where it has none that is small.
std::optional<std::vector<std::byte>> shard_of(const trace::Source& run, std::uint64_t rank,
                                               const trace::TensorKey& key) {
  try {
    const auto dataset = run.open(rank, trace::dataset_path(key));
    const auto elements = tensor::element_count(dataset->facts().shape);
    if (!elements || *elements == 0) return std::nullopt;
    const std::uint64_t bytes = *elements * tensor::element_bytes(dataset->facts().dtype);
    if (bytes > kMostOfDropout) return std::nullopt;
    std::vector<std::byte> values(bytes);
    dataset->read(tensor::whole(dataset->facts().shape), values);
    return values;
  } catch (const base::InputError&) {
    return std::nullopt;
  }
}

// A module of dropout that changes its input, or empty.
std::string active_dropout(const trace::Source& run) {
  const trace::Manifest& manifest = run.manifest();
  std::set<std::string_view> modules;
  for (const trace::Module& module : manifest.modules) {
    if (module.class_name.find("Dropout") != std::string::npos) modules.insert(module.name);
  }
  const std::vector<std::uint64_t> ranks = layout::ranks_of(manifest);
  std::size_t looked_at = 0;
  for (const trace::TensorEntry& entry : manifest.tensors) {
    if (entry.key.kind != Kind::kOutput || !modules.contains(entry.key.name)) continue;
    if (ranks.empty() || ++looked_at > kMostDropouts) break;
    trace::TensorKey input = entry.key;
    input.kind = Kind::kInput;
    const auto before = shard_of(run, ranks.front(), input);
    const auto after = shard_of(run, ranks.front(), entry.key);
    if (before && after && *before != *after) return entry.key.name;
  }
  return "";
}

}  // namespace

void compare_start(Runs& runs) {
  const std::vector<std::uint64_t> steps = common_steps(runs);
  if (steps.empty()) {
    runs.no_start = "no step is in both runs, so nothing can be compared";
    return;
  }
  CompareOptions options;
  options.selection = selection_of(runs.reference.manifest(), steps.front());
  options.execution = runs.options.execution;
  if (options.selection.only.empty()) {
    runs.no_start = "neither parameters nor inputs of the model are recorded";
    return;
  }
  try {
    runs.start = compare_traces(runs.reference, runs.candidate, {}, options);
  } catch (const base::Error& error) {
    runs.no_start = error.what();
  }
}

std::optional<Found> check_weights(const Runs& runs) {
  return check_start(runs, Kind::kParam, comparison::OtherStart::What::kWeights, "parameter",
                     "load one checkpoint in both, or tt.consistent_init(model)");
}

std::optional<Found> check_data(const Runs& runs) {
  return check_start(runs, Kind::kInput, comparison::OtherStart::What::kData, "input",
                     "give both the same batches under the same micro-batch numbers");
}

std::optional<Found> check_dropout(const Runs& runs) {
  for (const trace::Source* run : {&runs.reference, &runs.candidate}) {
    if (const std::string module = active_dropout(*run); !module.empty()) {
      return Found{Health::kWrong,
                   concat("active in ", base::printable(module), " of ", run->path(),
                          ", and no two runs draw the same masks; set it to 0 in both")};
    }
  }
  for (const trace::Source* run : {&runs.reference, &runs.candidate}) {
    for (const trace::TensorEntry& entry : run->manifest().tensors) {
      if (!comparison::is_random_draw(entry.key)) continue;
      return Found{Health::kNote,
                   concat("modules draw random numbers (", base::printable(entry.key.name), " of ",
                          run->path(), "); both runs must draw the same ones")};
    }
  }
  return Found{Health::kFine, "none is active"};
}

std::optional<Found> check_optimizer(const Runs& runs) {
  const auto& reference = runs.reference.manifest().optimizer;
  const auto& candidate = runs.candidate.manifest().optimizer;
  if (reference.empty() || candidate.empty()) {
    return Found{Health::kNote, concat(reference.empty() && candidate.empty() ? "neither run"
                                       : reference.empty() ? "the reference never"
                                                           : "the candidate never",
                                       " recorded its settings; give trace() the optimizer")};
  }
  const std::vector<comparison::SettingDifference> settings =
      optimizer::compare_settings(runs.reference.manifest(), runs.candidate.manifest(), {}, {});
  if (settings.empty()) return Found{Health::kFine, "the settings agree"};
  const comparison::SettingDifference& first = settings.front();
  const std::size_t more = settings.size() - 1;
  return Found{Health::kWrong,
               concat(base::printable(first.name), " is ", base::printable(first.reference),
                      " in the reference and ", base::printable(first.candidate),
                      " in the candidate, for ", base::plural(first.parameters.size(), "parameter"),
                      more == 0 ? "" : concat("; and ", more, " more"))};
}

}  // namespace ttrace::engine::doctor
