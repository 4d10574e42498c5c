// The consumer of the results of an update's tiles.
#pragma once

#include <memory>

#include "measure/backend.h"
#include "measure/cuda/consumers.h"

namespace ttrace::measure::cuda {

// `cpu` decides in tiles where rounding could make another update the worst.
std::unique_ptr<Consumer> update_consumer(const Backend& cpu, const UpdateRequest& request);

}  // namespace ttrace::measure::cuda
