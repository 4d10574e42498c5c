// The parts of measure_update() that threads share: the sections of one updated parameter.
#pragma once

#include <vector>

#include "measure/measure_update.h"
#include "measure/sections.h"

namespace ttrace::measure {

// Measures one section (sections.h) of the parameter, as measure_update() does all of it.
UpdateMeasurement measure_update_section(const Backend& backend, const UpdateTensors& tensors,
                                         const UpdateStep& step, const tensor::Box& section);

// Adds up all sections of a parameter, in their order.
UpdateMeasurement merge_sections(std::vector<UpdateMeasurement> sections);

}  // namespace ttrace::measure
