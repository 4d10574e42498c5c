#include "localize/microbatch_mismatch.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/message.h"
#include "base/text.h"
#include "comparison/stored_before.h"
#include "judge/slices.h"
#include "localize/causes/separating_axes.h"

namespace ttrace::localize {
namespace {

using comparison::MicrobatchMismatch;
using comparison::TensorComparison;
using judge::Outcome;

// Beyond this many, their order is not looked for: the work grows with the square.
constexpr std::size_t kMostOrdered = 256;
// Elements of one tensor; larger ones are not read once more for this.
constexpr std::uint64_t kMostElementsCompared = std::uint64_t{1} << 24;

using Numbers = std::set<std::uint64_t>;

// The micro-batches of one step, including those that were joined into one tensor.
struct OfStep {
  Numbers reference;
  Numbers candidate;
  Numbers missing;  // of tensors that are missing, not only unreadable or left out
  Numbers extra;
};

void add_numbers(const TensorComparison& result, const layout::ViewPtr& view, Numbers& numbers) {
  if (view == nullptr) return;
  if (result.key.microbatch) numbers.insert(*result.key.microbatch);
  if (!view->microbatches) return;
  numbers.insert(view->microbatches->numbers.begin(), view->microbatches->numbers.end());
}

std::map<std::uint64_t, OfStep> microbatches_of(const std::vector<TensorComparison>& results) {
  std::map<std::uint64_t, OfStep> steps;
  for (const TensorComparison& result : results) {
    OfStep& step = steps[result.key.step];
    add_numbers(result, result.reference, step.reference);
    add_numbers(result, result.candidate, step.candidate);
    if (!result.key.microbatch) continue;
    if (result.outcome == Outcome::kMissing) step.missing.insert(*result.key.microbatch);
    if (result.outcome == Outcome::kExtra) step.extra.insert(*result.key.microbatch);
  }
  return steps;
}

// Whether `one_sided` has a number that `others` lacks.
bool lacks_one(const Numbers& others, const Numbers& one_sided) {
  return !std::includes(others.begin(), others.end(), one_sided.begin(), one_sided.end());
}

// The same tensor in all micro-batches of a step.
using Series = std::vector<std::size_t>;  // results

bool is_ordered(const TensorComparison& result) {
  return result.key.microbatch && result.comparison && !result.comparison->replay &&
         (result.outcome == Outcome::kMatch || result.outcome == Outcome::kDiverged);
}

auto series_key(const trace::TensorKey& key) {
  return std::tuple(key.step, key.kind, key.name, key.call, key.copy);
}

// The series of the first tensor of the step that diverged, and that of the loss.
std::vector<Series> witnesses(const std::vector<TensorComparison>& results, std::uint64_t step) {
  const TensorComparison* first = nullptr;
  const TensorComparison* loss = nullptr;
  for (const TensorComparison& result : results) {
    if (result.key.step != step || !is_ordered(result) || result.outcome == Outcome::kMatch) {
      continue;
    }
    if (first == nullptr) first = &result;
    if (loss == nullptr && result.key.kind == trace::Kind::kLoss) loss = &result;
  }
  std::vector<Series> found;
  for (const TensorComparison* one : {first, loss}) {
    if (one == nullptr || (one == loss && first == loss && !found.empty())) continue;
    Series series;
    bool whole = tensor::element_count(one->shape).value_or(kMostElementsCompared + 1) <=
                 kMostElementsCompared;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (series_key(results[i].key) != series_key(one->key)) continue;
      whole = whole && is_ordered(results[i]) && results[i].shape == one->shape;
      series.push_back(i);
    }
    if (whole && series.size() <= kMostOrdered) found.push_back(std::move(series));
  }
  return found;
}

// Compares the candidate's micro-batches with other ones of the reference.
class Order {
 public:
  Order(const trace::Source& reference, const trace::Source& candidate,
        const measure::Backend& backend, const std::vector<TensorComparison>& results)
      : reference_(reference), candidate_(candidate), backend_(backend), results_(results) {}

  // Returns, for each diverged micro-batch of the candidate, the micro-batch of the reference that
  // it equals. Returns nothing if one of them equals none, or more than one.
  std::map<std::uint64_t, std::uint64_t> of(const Series& series) const {
    Series diverged;
    std::copy_if(series.begin(), series.end(), std::back_inserter(diverged),
                 [this](std::size_t i) { return results_[i].outcome == Outcome::kDiverged; });
    std::map<std::uint64_t, std::uint64_t> swapped;
    Numbers taken;
    for (const std::size_t i : diverged) {
      std::optional<std::uint64_t> found;
      for (const std::size_t j : diverged) {
        if (i == j || !is_equal(results_[i], results_[j])) continue;
        if (found) return {};
        found = *results_[j].key.microbatch;
      }
      if (!found || !taken.insert(*found).second) return {};
      swapped[*results_[i].key.microbatch] = *found;
    }
    return swapped;
  }

 private:
  // Whether the candidate's value of `result` equals the reference's value of `other`, within the
  // tolerance of `other`.
  bool is_equal(const TensorComparison& result, const TensorComparison& other) const {
    const double allowed = other.exact ? 0 : other.comparison->tolerance.allowed_norm();
    const double norm = std::sqrt(result.comparison->measurement.total.sum_c2);
    const double other_norm = measure::reference_norm(other.comparison->measurement.total);
    // Norms alone rule out nearly all pairs. Equal values may be added up in another order.
    const double most = 2 * allowed + judge::kScaleResolution * other_norm;
    if (!other.exact && std::abs(norm - other_norm) > most) return false;
    const auto roundings = comparison::roundings_of(other);
    const measure::Measurement measured =
        measure::measure(backend_, {&reference_, other.reference}, {&candidate_, result.candidate},
                         {}, {nullptr, roundings ? &*roundings : nullptr});
    if (measured.total.nonfinite_different > 0) return false;
    return other.exact ? measured.total.unequal == 0
                       : measure::difference_norm(measured.total) <= allowed;
  }

  const trace::Source& reference_;
  const trace::Source& candidate_;
  const measure::Backend& backend_;
  const std::vector<TensorComparison>& results_;
};

// Whether ranks along an axis with this name get the same samples.
bool shares_samples(std::string_view axis) {
  constexpr std::array<std::string_view, 4> kShared{"tp", "cp", "pp", "sp"};
  return std::find(kShared.begin(), kShared.end(), axis) != kShared.end();
}

// Whether this is an input of the whole model in a micro-batch, and its replicas differ.
bool is_input_in_conflict(const TensorComparison& result) {
  return result.key.kind == trace::Kind::kInput && module_of(result.key) == trace::kWholeModel &&
         result.key.microbatch && result.outcome == Outcome::kReplicaConflict &&
         result.comparison && result.comparison->measurement.replicas_differ;
}

// Returns a result that shows that ranks recorded different data under one number, with the axis
// that separates them.
std::optional<std::pair<std::size_t, std::string>> find_shared_number(
    const trace::Source& candidate, const std::vector<TensorComparison>& results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!is_input_in_conflict(results[i])) continue;
    const std::vector<std::string> axes = separating_axes(
        {&candidate, results[i].candidate}, *results[i].comparison->measurement.replicas);
    for (const std::string& axis : axes) {
      if (!shares_samples(axis)) return std::pair(i, axis);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<MicrobatchMismatch> find_microbatch_mismatch(
    const trace::Source& reference, const trace::Source& candidate, const measure::Backend& backend,
    const std::vector<TensorComparison>& results) {
  const auto steps = microbatches_of(results);
  if (const auto shared = find_shared_number(candidate, results)) {
    const std::uint64_t number = results[shared->first].key.step;
    const OfStep& step = steps.at(number);
    return MicrobatchMismatch{number,
                              {step.reference.begin(), step.reference.end()},
                              {step.candidate.begin(), step.candidate.end()},
                              {},
                              shared->first,
                              shared->second};
  }
  for (const auto& [number, step] : steps) {
    MicrobatchMismatch mismatch{number,
                                {step.reference.begin(), step.reference.end()},
                                {step.candidate.begin(), step.candidate.end()},
                                {},
                                std::nullopt,
                                {}};
    // A run may have recorded no tensor of any micro-batch.
    if (step.reference.empty() || step.candidate.empty()) continue;
    if (lacks_one(step.candidate, step.missing) || lacks_one(step.reference, step.extra)) {
      return mismatch;
    }
    for (const Series& series : witnesses(results, number)) {
      try {
        mismatch.swapped = Order(reference, candidate, backend, results).of(series);
      } catch (const base::InputError&) {
        continue;  // readable a moment ago; nothing is said of the order
      }
      if (mismatch.swapped.empty()) continue;
      mismatch.shown_by = *std::find_if(series.begin(), series.end(), [&results](std::size_t i) {
        return results[i].outcome == Outcome::kDiverged;
      });
      return mismatch;
    }
  }
  return std::nullopt;
}

std::optional<MicrobatchMismatch> lacking_microbatches(const trace::Manifest& reference,
                                                       const trace::Manifest& candidate) {
  const auto numbers_of = [](const trace::Manifest& manifest) {
    std::map<std::uint64_t, Numbers> steps;
    for (const trace::TensorEntry& entry : manifest.tensors) {
      Numbers& numbers = steps[entry.key.step];
      if (entry.key.microbatch) numbers.insert(*entry.key.microbatch);
      if (!entry.microbatches) continue;
      numbers.insert(entry.microbatches->numbers.begin(), entry.microbatches->numbers.end());
    }
    return steps;
  };
  const std::map<std::uint64_t, Numbers> known = numbers_of(reference);
  for (const auto& [number, own] : numbers_of(candidate)) {
    const auto other = known.find(number);
    if (other == known.end() || other->second.empty() || !lacks_one(other->second, own)) continue;
    return MicrobatchMismatch{number,
                              {other->second.begin(), other->second.end()},
                              {own.begin(), own.end()},
                              {},
                              std::nullopt,
                              {}};
  }
  return std::nullopt;
}

std::string describe_mismatch(const MicrobatchMismatch& mismatch) {
  if (!mismatch.axis.empty()) {
    return base::render(
        {"the {axis} ranks recorded different data under the same micro-batch numbers",
         {{"axis", mismatch.axis}}});
  }
  if (mismatch.swapped.empty()) {
    const bool counts = mismatch.reference.size() != mismatch.candidate.size();
    if (!counts) {
      return base::render(
          {"the candidate has micro-batches {candidate} in step {step}, the reference {reference}",
           {{"candidate", base::numbers_in_words(mismatch.candidate)},
            {"step", mismatch.step},
            {"reference", base::numbers_in_words(mismatch.reference)}}});
    }
    return base::render(
        {"the candidate has {candidate} {candidate?micro-batch|micro-batches} in step "
         "{step}, the reference {reference}",
         {{"candidate", std::uint64_t{mismatch.candidate.size()}},
          {"step", mismatch.step},
          {"reference", std::uint64_t{mismatch.reference.size()}}}});
  }
  std::vector<std::uint64_t> candidate;
  std::vector<std::uint64_t> reference;
  for (const auto& [own, other] : mismatch.swapped) {
    candidate.push_back(own);
    reference.push_back(other);
  }
  return base::render(
      {"micro-batches {candidate} of the candidate are {reference} of the reference",
       {{"candidate", base::numbers_in_words(candidate)},
        {"reference", base::numbers_in_words(reference)}}});
}

std::string describe_numbers(const MicrobatchMismatch& mismatch) {
  return base::render({"candidate {candidate}, reference {reference}",
                       {{"candidate", base::numbers_in_words(mismatch.candidate)},
                        {"reference", base::numbers_in_words(mismatch.reference)}}});
}

std::string remedy_of(const MicrobatchMismatch& mismatch) {
  if (!mismatch.axis.empty()) {
    return base::render(
        {"say trace(dp_axis=\"{axis}\") where its ranks are dealt samples of their own, or give "
         "tracer.microbatch(n) the number n that the same data has in the reference. If they are "
         "meant to get the same data, they did not",
         {{"axis", mismatch.axis}}});
  }
  if (!mismatch.swapped.empty()) {
    return base::render(
        {"number them alike: trace(interleaved=True) where data-parallel ranks are dealt "
         "micro-batches in turn, and otherwise tracer.microbatch(n) with the number n that the "
         "same "
         "data has in the reference. If the numbers are right, the ranks got each other's data",
         {}});
  }
  return base::render(
      {"let both take the same ones: a reference on one process takes those of all data-parallel "
       "ranks, one after the other or as one batch (tracer.microbatch({numbers}, dim=0)). What "
       "belongs to no micro-batch can be compared meanwhile: --kind param main_grad grad_norm "
       "param_after_step",
       {{"numbers", "[0, 1, ...]"}}});
}

}  // namespace ttrace::localize
