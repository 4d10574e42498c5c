#include "audit/main_gradients.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "audit/agreement.h"
#include "audit/explain_mismatch.h"
#include "base/error.h"
#include "base/message.h"
#include "base/text.h"
#include "comparison/shown_precision.h"
#include "layout/view.h"
#include "measure/measure.h"
#include "measure/measure_update.h"
#include "measure/optimizer/step.h"
#include "measure/squared_terms.h"
#include "trace/normed_parts.h"

namespace ttrace::audit {
namespace {

using trace::Kind;
using trace::TensorEntry;

// The coarsest roundoff that the trace or the specification shows. A run that says it computed in
// something coarser is not believed.
double coarsest_roundoff(const MeasuredRun& measured) {
  double epsilon = tensor::epsilon(
      comparison::coarsest_stored(measured.run.manifest()).value_or(tensor::DType::kFloat64));
  if (measured.specification != nullptr) {
    for (const specification::Pattern* pattern : measured.specification->all_patterns()) {
      for (const specification::Node& node : pattern->nodes) {
        if (tensor::is_floating(node.dtype)) {
          epsilon = std::max(epsilon, tensor::epsilon(node.dtype));
        }
      }
    }
  }
  return epsilon / 2;
}

double roundoff_of(const TensorEntry& entry, double coarsest) {
  const double own = measure::unit_roundoff(entry.dtype).value_or(0);
  const double computed =
      measure::unit_roundoff(entry.computed_in.value_or(entry.dtype)).value_or(0);
  return std::max(own, std::min(computed, coarsest));
}

// The ranks whose terms add up to the tensor.
double partial_ranks(const trace::Manifest& manifest, const TensorEntry& entry) {
  double ranks = 1;
  for (const trace::MeshAxis& axis : manifest.meshes.at(entry.mesh).axes) {
    const auto placed = entry.placements.find(axis.name);
    if (placed == entry.placements.end()) continue;
    if (std::holds_alternative<trace::Partial>(placed->second)) {
      ranks *= static_cast<double>(axis.size);
    }
  }
  return ranks;
}

// The raw gradients that a main gradient is the sum of.
struct RawGradients {
  std::vector<const TensorEntry*> terms;
  std::set<std::uint64_t> microbatches;
};

class MainGradients {
 public:
  MainGradients(const MeasuredRun& measured, const specification::AfterBackward& accumulation)
      : measured_(measured),
        accumulation_(accumulation),
        coarsest_(coarsest_roundoff(measured)),
        entries_(entries_of(measured.run)),
        parts_(measured.run.manifest()) {
    for (const TensorEntry& entry : measured.run.manifest().tensors) {
      if (entry.key.kind != Kind::kParamGrad) continue;
      raw_[{entry.key.step, entry.key.name}].push_back(&entry);
      add_microbatches(entry, microbatches_[entry.key.step]);
    }
    for (const auto& [key, norm] : measured.norms) {
      if (key.kind != Kind::kMainGrad || key.copy != 0) continue;
      squares_[{key.step, parts_.part_with(key.step, key.name)}] += norm * norm;
    }
  }

  void check(AuditedTensor& tensor) const {
    const TensorEntry& entry = *entries_.at(tensor.key);
    const auto taken = accumulation_.taken.find(entry.key.name);
    if (taken != accumulation_.taken.end() && taken->second.empty()) {
      tensor.reason = base::render(
          {"the step takes a part of its raw gradients, and which was not recorded", {}});
      return;
    }
    const RawGradients raw = raw_of(entry.key);
    const bool is_zero = measured_.norms.at(tensor.key) == 0;
    if (raw.terms.empty() && is_zero &&
        measured_.specification->is_frozen(entry.key.step, entry.key.name)) {
      AuditCheck frozen;
      frozen.operation = "sum of raw gradients";
      frozen.expected = base::render({"zeros, since the parameter is frozen in this step", {}});
      tensor.checks.push_back(std::move(frozen));
      return;
    }
    if (raw.terms.empty()) {
      tensor.reason =
          base::render({"its raw gradients were not recorded (TTRACE_KINDS needs param_grad)", {}});
      return;
    }
    for (const TensorEntry* term : raw.terms) {
      if (term->shape == entry.shape) continue;
      tensor.reason = base::render({"its raw gradients have another shape", {}});
      return;
    }
    if (!given(entry.key)) {
      tensor.reason =
          base::render({"the run did not record {factor}, which the script multiplies gradients by "
                        "(tracer.main_grads(factor=...))",
                        {{"factor", accumulation_.given}}});
      return;
    }
    for (const TensorEntry* term : raw.terms) tensor.follows_from.push_back(term->key);
    // If the gradient is neither sum, the norm of all gradients says whether they are clipped.
    AuditCheck best;
    std::optional<measure::TensorRef> expected;
    for (const double clip : clip_factors(entry.key)) {
      const measure::TensorRef tried = sum_of(entry, raw, clip);
      const AuditCheck check = checked(entry, raw, clip, tried);
      if (expected && check.result == CheckResult::kInconsistent) continue;
      best = check;
      expected = tried;
      if (check.result != CheckResult::kInconsistent) break;
    }
    if (best.result == CheckResult::kInconsistent) {
      explain_mismatch(measured_.run, entry, *expected, best.bound * best.expected_norm,
                       *measured_.execution.backend, best, tensor, raw.terms);
      if (tensor.causes.empty()) name_lacking(entry, raw, tensor);
    }
    tensor.checks.push_back(std::move(best));
  }

 private:
  static void add_microbatches(const TensorEntry& entry, std::set<std::uint64_t>& into) {
    if (entry.key.microbatch) into.insert(*entry.key.microbatch);
    if (entry.microbatches) {
      into.insert(entry.microbatches->numbers.begin(), entry.microbatches->numbers.end());
    }
  }

  // Names the micro-batch that the sum lacks, if the sum holds without its raw gradients. For
  // tensors with too few elements to fit a weight for each term.
  void name_lacking(const TensorEntry& entry, const RawGradients& raw,
                    AuditedTensor& tensor) const {
    constexpr std::size_t kMost = 64;
    if (raw.microbatches.size() < 2 || raw.microbatches.size() > kMost) return;
    for (const std::uint64_t lacking : raw.microbatches) {
      RawGradients others = raw;
      std::erase_if(others.terms,
                    [lacking](const TensorEntry* term) { return term->key.microbatch == lacking; });
      if (others.terms.empty() || others.terms.size() == raw.terms.size()) continue;
      for (const double clip : clip_factors(entry.key)) {
        const AuditCheck check = checked(entry, others, clip, sum_of(entry, others, clip));
        if (check.result != CheckResult::kConsistent) continue;
        tensor.causes.push_back(
            {"wrong_sum", "",
             base::render(
                 {"a sum of raw gradients: it lacks micro-batch {number}", {{"number", lacking}}}),
             check.error});
        return;
      }
    }
  }

  RawGradients raw_of(const trace::TensorKey& key) const {
    RawGradients raw;
    std::set<std::string> names{key.name};
    for (const std::vector<std::string>& tied : accumulation_.tied) {
      if (std::find(tied.begin(), tied.end(), key.name) != tied.end()) {
        names.insert(tied.begin(), tied.end());
      }
    }
    for (const std::string& name : names) {
      const auto found = raw_.find({key.step, name});
      if (found == raw_.end()) continue;
      for (const TensorEntry* entry : found->second) {
        // Each copy of a tied parameter has raw gradients of its own: the main gradient is their
        // sum.
        std::set<std::uint64_t> microbatches;
        add_microbatches(*entry, microbatches);
        if (!accumulation_.takes(key.name, microbatches)) continue;
        raw.terms.push_back(entry);
        raw.microbatches.merge(microbatches);
      }
    }
    return raw;
  }

  // Returns the factors by which clipping may have multiplied the main gradients before they were
  // recorded, the likelier one first: if the norm of its part is what clipping leaves, they are
  // clipped.
  std::vector<double> clip_factors(const trace::TensorKey& key) const {
    std::vector<double> factors{1};
    const std::string part = parts_.part_with(key.step, key.name);
    const auto limit = parts_.limit(key.step, part);
    if (!limit) return factors;
    for (const auto& [other, norm] : measured_.norms) {
      if (other.kind != Kind::kGradNorm || other.step != key.step) continue;
      if (parts_.part_of(key.step, other.name) != part) continue;
      const double coefficient = measure::clip_coefficient(*limit, norm);
      if (coefficient == 1) continue;
      const double left = coefficient * norm;
      const auto squares = squares_.find({key.step, part});
      if (squares == squares_.end()) continue;
      const double all = std::sqrt(squares->second);
      const bool clipped =
          std::abs(all - left) <= kSameNorm * left && std::abs(all - left) < std::abs(all - norm);
      factors.insert(clipped ? factors.begin() : factors.end(), coefficient);
    }
    return factors;
  }

  // Returns what the script multiplied gradients by, as it recorded it; nothing if it should have
  // recorded it and did not.
  std::optional<double> given(const trace::TensorKey& key) const {
    if (accumulation_.given.empty()) return 1;
    trace::TensorKey scalar;
    scalar.step = key.step;
    scalar.kind = Kind::kScalar;
    scalar.name = accumulation_.given;
    const auto known = measured_.norms.find(scalar);
    const auto entry = entries_.find(scalar);
    if (known == measured_.norms.end() || entry == entries_.end()) return std::nullopt;
    if (!entry->second->shape.empty() || !(known->second > 0)) return std::nullopt;
    return known->second;
  }

  // Norms that were summed in other orders and precisions agree to much better than this.
  static constexpr double kSameNorm = 0.01;

  double factor(const trace::TensorKey& key, double clip) const {
    const auto microbatches = static_cast<double>(microbatches_.at(key.step).size());
    return accumulation_.factor * given(key).value_or(1) * clip /
           (accumulation_.mean ? std::max(microbatches, 1.0) : 1.0);
  }

  // Returns the expected main gradient.
  measure::TensorRef sum_of(const TensorEntry& entry, const RawGradients& raw, double clip) const {
    layout::Sum sum;
    for (const TensorEntry* term : raw.terms) sum.terms.push_back(layout::view_of(*term));
    sum.factor = factor(entry.key, clip);
    layout::View expected = layout::made_of(sum.terms);
    expected.key = entry.key;
    expected.shape = entry.shape;
    expected.how = std::move(sum);
    return {&measured_.run, std::make_shared<const layout::View>(std::move(expected))};
  }

  AuditCheck checked(const TensorEntry& entry, const RawGradients& raw, double clip,
                     const measure::TensorRef& expected) const {
    double squares = 0;
    double terms = 0;
    double roundoff = roundoff_of(entry, coarsest_);
    for (const TensorEntry* term : raw.terms) {
      squares += squared_norm(*term);
      terms += partial_ranks(measured_.run.manifest(), *term);
      roundoff = std::max(roundoff, roundoff_of(*term, coarsest_));
    }
    const measure::Measurement measurement =
        measure::measure(*measured_.execution.backend, expected, {&measured_.run, &entry}, nullptr);
    AuditCheck check;
    check.operation = "sum of raw gradients";
    const double factor_of_script = given(entry.key).value_or(1);
    check.expected = base::render(
        {"{sum} of {terms:raw gradient}[ times {factor}][ times {given} = {value}][, clipped by "
         "{clip}]",
         {{"sum", accumulation_.mean ? "mean" : "sum"},
          {"terms", raw.terms.size()},
          {"factor", accumulation_.factor == 1 ? "" : base::concat(accumulation_.factor)},
          {"given", accumulation_.given},
          {"value", base::nine_digits(factor_of_script)},
          {"clip", clip == 1 ? "" : base::short_number(clip)}}});
    const double norm = measure::reference_norm(measurement.total);
    const double off = measure::difference_norm(measurement.total);
    // The sum is rounded to the coarsest type after every term, and once more where it is stored.
    const auto rounding = [&](double of_squares) {
      return roundoff *
             (norm + std::sqrt((terms + 1) * of_squares) * std::abs(factor(entry.key, clip)));
    };
    double allowed = rounding(squares);
    // Terms of ranks may cancel, as those of a key's bias do under context parallelism. Rounding
    // grows with the terms, not with their sum. Reading them costs, so only where the sum's own
    // bound does not suffice.
    if (off > allowed && terms > static_cast<double>(raw.terms.size())) {
      allowed = std::max(allowed, rounding(squared_terms(raw)));
    }
    check.error = norm > 0 ? off / norm : (off > 0 ? std::numeric_limits<double>::infinity() : 0);
    check.bound = norm > 0 ? allowed / norm : 0;
    check.expected_norm = norm;
    check.allowed = allowed;
    if (off <= allowed && measurement.total.nonfinite_different == 0) {
      check.require_bound(measurement.total.unequal == 0);
      return check;
    }
    check.result = CheckResult::kInconsistent;
    check.reason = base::render({"is not the {expected}", {{"expected", check.expected}}});
    return check;
  }

  double squared_terms(const RawGradients& raw) const {
    double squares = 0;
    for (const TensorEntry* term : raw.terms) {
      squares += measure::squared_terms(measured_.run, *term);
    }
    return squares;
  }

  double squared_norm(const TensorEntry& entry) const {
    const auto known = measured_.norms.find(entry.key);
    return known != measured_.norms.end() ? known->second * known->second
                                          : measure::squared_norm({&measured_.run, &entry});
  }

  const MeasuredRun& measured_;
  const specification::AfterBackward& accumulation_;
  double coarsest_;
  EntriesByKey entries_;
  std::map<std::pair<std::uint64_t, std::string>, std::vector<const TensorEntry*>> raw_;
  std::map<std::uint64_t, std::set<std::uint64_t>> microbatches_;
  trace::NormedParts parts_;
  // ‖g‖² of the main gradients of a step and part.
  std::map<std::pair<std::uint64_t, std::string>, double> squares_;
};

}  // namespace

void check_main_gradients(const MeasuredRun& measured, std::vector<AuditedTensor>& tensors) {
  const specification::AfterBackward* accumulation =
      measured.specification == nullptr ? nullptr : &measured.specification->after_backward;
  std::vector<AuditedTensor*> gradients;
  for (AuditedTensor& tensor : tensors) {
    if (tensor.key.kind != Kind::kMainGrad || !measured.norms.contains(tensor.key)) continue;
    if (accumulation != nullptr && accumulation->has_main_grad) {
      gradients.push_back(&tensor);
    } else {
      tensor.reason =
          base::render({"no specification says how raw gradients make it (--specification, "
                        "after_backward.main_grad in it)",
                        {}});
    }
  }
  if (gradients.empty()) return;
  const MainGradients main(measured, *accumulation);
  measured.execution.parallel_for(gradients.size(), [&](std::size_t i) {
    try {
      main.check(*gradients[i]);
    } catch (const base::InputError& error) {
      gradients[i]->reason = error.what();
    }
  });
}

}  // namespace ttrace::audit
