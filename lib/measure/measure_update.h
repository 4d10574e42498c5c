// Measures how far an updated parameter C is from Q, which its optimizer computes from the
// candidate's own parameter, gradient and state: element by element, in one pass and bounded
// memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "measure/measure.h"
#include "measure/optimizer/step.h"

namespace ttrace::measure {

// Tensors of one trace and one shape. A state that does not exist yet has no view.
struct UpdateTensors {
  TensorRef after;
  TensorRef parameter;
  TensorRef gradient;  // not needed where nothing is updated
  TensorRef momentum_buffer;
  TensorRef exp_avg;
  TensorRef exp_avg_sq;
  TensorRef max_exp_avg_sq;
};

struct UpdateMeasurement {
  // With Q as the reference; `unequal` counts the elements that are out of bounds.
  TileStats total;
  std::vector<BlockStats> blocks;
  std::uint64_t unmoved = 0;   // elements out of bounds that still have the old value
  std::uint64_t unjudged = 0;  // finite elements whose bound is not
  double sum_bound2 = 0;       // Σ bound², over the judged elements
  std::optional<ElementPlace> largest_place;  // of total.largest
  std::optional<WorstUpdate> worst;           // nothing if all elements are exactly as replayed
  std::uint64_t bytes_read = 0;
};

// Measures one section (sections.h) of the parameter. Classifies non-finite values by position, as
// `measure` does. Throws an input error if a shard cannot be read.
UpdateMeasurement measure_update_section(const Backend& backend, const UpdateTensors& tensors,
                                         const UpdateStep& step, const tensor::Box& section);

// Adds up all sections of a parameter, in their order.
UpdateMeasurement merge_sections(std::vector<UpdateMeasurement> sections);

// Returns Σ x² over the finite elements of a floating-point tensor.
double squared_norm(const TensorRef& tensor);

}  // namespace ttrace::measure
