// How much of two traces a comparison checked: what it left out and why, and where the numbers that
// it checked say little.
#pragma once

#include <cstdint>

#include "comparison/result.h"
#include "trace/key.h"

namespace ttrace::comparison {

// Whether a training step computes tensors of this kind. It begins with those of other kinds.
bool is_computed(trace::Kind kind);

// How many tensors are alike in one respect, and the first of them in the order of the results.
struct Tally {
  std::uint64_t tensors = 0;
  const TensorComparison* first = nullptr;  // points into the report

  void add(const TensorComparison& result);
  bool empty() const { return tensors == 0; }
};

struct Coverage {
  std::uint64_t tensors = 0;   // of both traces
  std::uint64_t selected = 0;  // not left out by a selection, a rule or the part of another process
  std::uint64_t agree = 0;
  // Selected tensors that a training step computes, and those of them that were not checked. Those
  // that are excused (see below) or that the other implementation lacks count as neither.
  std::uint64_t computed = 0;
  std::uint64_t computed_unchecked = 0;

  // Selected, and not checked.
  Tally unreadable;
  Tally not_recorded_by_candidate;
  Tally not_recorded_by_reference;
  Tally other_implementation;  // the other side computes in another way, without it
  Tally below_noise_floor;
  Tally not_judged;
  Tally after_routing_flips;

  // Checked, with values that say little.
  Tally routing_flips;
  Tally not_finite;  // some values not finite, and the same ones on both sides
  Tally zero;        // computed by the step, and zero on both sides
  Tally without_elements;
  Tally kinks;            // within what elements on the other side of a kink may have moved
  Tally start_by_policy;  // stored before the step, with a tolerance by a rule of a person
  Tally widened;          // by the type that the candidate says it computed in
  // Without rows that one side has more, as padding or by a rule of the map, or that no gradient
  // comes to.
  Tally trimmed;
  std::uint64_t rows_trimmed = 0;  // of the one of them with the most
  bool trimmed_alike = true;       // all of them as many

  // Not selected.
  Tally skipped_by_policy;
  Tally dropped_by_map;
};

// Counts the results of `report`, which must outlive the value returned.
Coverage coverage_of(const CompareReport& report);

// Whether a comparison that left so many unchecked says nothing of the step: a tenth of the main
// gradients; more than half of the tensors that the step computes.
bool are_too_many_gradients(std::uint64_t unchecked, std::uint64_t all);
bool are_most(std::uint64_t unchecked, std::uint64_t all);
// How many rows of a tensor are not compared, because one side or a rule of the map has fewer, or
// because no gradient comes to them in either run.
std::uint64_t rows_left_out(const TensorComparison& result);

// Whether more than half of the values are not finite, the same ones on both sides.
bool is_mostly_not_finite(const TensorComparison& result);
// Whether such values are expected: a loss scaler skipped the step because of them in both runs.
bool is_excused(const CompareReport& report, const TensorComparison& result);

}  // namespace ttrace::comparison
