#include "comparison/calibration_checks.h"

#include <cmath>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "comparison/noise_runs.h"
#include "comparison/noise_source.h"

namespace ttrace::comparison {
namespace {

using base::concat;
using base::printable;

constexpr const char* kWayOut =
    "; it belongs to another model, step or precision: run `ttrace calibrate` on this reference";

constexpr double kSameNorm = 1e-6;  // relative; a calibration keeps fewer digits than a sum has

// The tensors that were calibrated, as a manifest of a run that has them alone.
trace::Manifest calibrated_tensors(const judge::Calibration& calibration, unsigned version) {
  trace::Manifest manifest;
  manifest.version = version;
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
    throw base::input_error(file, ": calibrates ", printable(to_string(entry.key)), " as ",
                            tensor::to_string(found->second.shape), " ",
                            dtype_short_name(found->second.dtype), ", and the reference has ",
                            tensor::to_string(entry.shape), " ", dtype_short_name(entry.dtype),
                            kWayOut);
  }
}

}  // namespace

std::vector<std::string> calibration_warnings(const trace::Manifest& reference,
                                              const judge::Calibration& calibration,
                                              const std::string& file) {
  if (calibration.tensors.empty()) return {};
  trace::Manifest floating;
  floating.version = reference.version;
  std::set<std::uint64_t> steps;
  for (const auto& [key, tensor] : calibration.tensors) steps.insert(key.step);
  std::size_t other_steps = 0;
  for (const trace::TensorEntry& entry : reference.tensors) {
    if (!tensor::is_floating(entry.dtype)) continue;
    if (!steps.contains(entry.key.step)) ++other_steps;
    floating.tensors.push_back(entry);
  }
  if (other_steps == floating.tensors.size()) {
    throw base::input_error(file, ": calibrates none of the reference's tensors", kWayOut);
  }
  std::erase_if(floating.tensors,
                [&](const auto& entry) { return !steps.contains(entry.key.step); });
  const LackingTensors lacking =
      lacking_tensors(floating, calibrated_tensors(calibration, reference.version));
  if (lacking.missing == floating.tensors.size()) {
    throw base::input_error(file, ": calibrates none of the reference's tensors (first ",
                            printable(lacking.first_missing), ")", kWayOut);
  }
  if (lacking.missing > 0) {
    throw base::input_error(file, ": lacks ", base::plural(lacking.missing, "tensor"),
                            " of the reference (first ", printable(lacking.first_missing), ")",
                            kWayOut);
  }
  require_same_shapes(reference, calibration, file);
  const std::size_t without = lacking.not_recorded + lacking.not_run + other_steps;
  if (without == 0) return {};
  return {
      concat(file, " calibrates ", floating.tensors.size() + other_steps - without,
             " of the reference's ", floating.tensors.size() + other_steps,
             " floating-point tensors; the fallback rule judges the others: ", lacking.not_recorded,
             " of kinds and ", other_steps, " of steps that it has nothing of, ", lacking.not_run,
             " of modules that did not run")};
}

std::vector<std::string> rule_warnings(const judge::Policy& rules, const std::string& file,
                                       const std::vector<Pair>& pairs, const std::string& today) {
  std::vector<std::size_t> used(rules.size(), 0);
  for (const Pair& pair : pairs) {
    if (const auto number = judge::rule_for(rules, pair.key)) ++used[*number];
  }
  std::vector<std::string> warnings;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const std::string rule = base::concat(file, ": /rules/", i, " (", rules[i].names.front(), ")");
    if (used[i] == 0) {
      warnings.push_back(base::concat(rule, " is the first match of no tensor"));
    } else if (!rules[i].skip.empty() && !judge::skips(rules[i], today)) {
      warnings.push_back(base::concat(rule, " ended on ", rules[i].until, ", so ",
                                      base::plural(used[i], "tensor"),
                                      " are judged again; renew it or take it out"));
    }
  }
  return warnings;
}

void check_calibrated_parameters(const trace::Manifest& reference,
                                 const judge::Calibration& calibration, const std::string& file,
                                 const std::vector<TensorComparison>& results) {
  const std::uint64_t first_step = first_step_of(reference);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Pair& pair = results[i];
    if (pair.key.kind != trace::Kind::kParam || pair.key.step != first_step) continue;
    if (!results[i].comparison || !pair.noise.empty()) continue;
    const auto* stored = std::get_if<layout::Stored>(&pair.reference->how);
    const auto* known = stored != nullptr ? calibrated(calibration, *stored->entry) : nullptr;
    if (known == nullptr) continue;
    const std::string name = printable(to_string(pair.key));
    if (known->noise.norm() != 0) {
      throw base::input_error(file, ": ", name, " differed between the runs that it was made of, ",
                              "and all of them start from the same parameters", kWayOut);
    }
    const double norm = measure::reference_norm(results[i].comparison->measurement.total);
    if (!(std::abs(norm - known->noise.reference_norm) <= kSameNorm * std::abs(norm))) {
      throw base::input_error(
          file, ": ", name, " had the norm ", base::short_number(known->noise.reference_norm),
          " when it was made, and has ", base::short_number(norm), " in this reference", kWayOut);
    }
  }
}

}  // namespace ttrace::comparison
