// Consumers of the results of tiles: each kind of request adds them up as the CPU does
// (measure/cpu/pair.cpp), tile by tile in their order.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "measure/backend.h"
#include "measure/cuda/kernels/work.h"

namespace ttrace::measure::cuda {

class Consumer;

// Consecutive elements of a request: one job on a device. Inputs are staged in host memory, or lie
// in the memory of the device.
struct TileRun {
  TileArithmetic arithmetic = TileArithmetic::kNumbers;
  tensor::DType dtype = tensor::DType::kFloat32;  // of stored values that are compared as they are
  std::array<StoredValues, kMostInputs> inputs;
  const UpdateFormula* formula = nullptr;  // of an update; staged too
  std::uint64_t elements = 0;
  std::uint64_t first = 0;  // position of the first element in the consumer's box
  Consumer* consumer = nullptr;

  std::uint64_t tiles() const { return (elements + kTile - 1) / kTile; }
  std::uint64_t result_count() const { return tiles() * results_per_tile(arithmetic); }
};

// Takes the results of all runs of one box, in their order.
class Consumer {
 public:
  virtual ~Consumer() = default;
  virtual void take(const TileRun& run, std::span<const TileResult> results) = 0;
  // Computes the run on `cpu` from its staged inputs, where the device failed.
  virtual void redo(const Backend& cpu, const TileRun& run);
  // After the last run.
  virtual void end() = 0;
};

// The box of a pair. With a cell, the box is summed on its own and then added to both.
std::unique_ptr<Consumer> pair_consumer(const tensor::Box& box, TileStats& into, CellSums* cell);
std::unique_ptr<Consumer> integer_consumer(const tensor::Box& box, TileStats& into);
std::unique_ptr<Consumer> noise_consumer(const tensor::Box& box, NoiseSums& into, std::size_t cell);
std::unique_ptr<Consumer> replica_consumer(double& squared_distance);

// Adds the result of a tile, as add_tile of the CPU does it; `first` is the tile's position in
// `box`.
void add_result(const TileResult& result, std::uint64_t count, const tensor::Box& box,
                std::uint64_t first, TileStats& into);
// The statistics of one tile, whose box starts at 0, as a kernel gives them.
TileResult as_result(const TileStats& stats);

}  // namespace ttrace::measure::cuda
