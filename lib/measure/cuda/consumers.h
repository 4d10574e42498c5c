// What becomes of the results of tiles: each kind of request adds them up as the CPU does
// (measure/cpu/pair.cpp), tile by tile in their order.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "measure/backend.h"
#include "measure/cuda/kernels/work.h"

namespace ttrace::measure::cuda {

class Consumer;

// Consecutive elements of a request, staged in host memory: one job on a device.
struct Piece {
  TileArithmetic arithmetic = TileArithmetic::kNumbers;
  tensor::DType dtype = tensor::DType::kFloat32;  // of stored values that are compared as they are
  std::array<StoredValues, 3> inputs;
  std::uint64_t elements = 0;
  std::uint64_t first = 0;  // position of the first element in the consumer's box
  Consumer* consumer = nullptr;

  std::uint64_t tiles() const { return (elements + kTile - 1) / kTile; }
  std::uint64_t result_count() const { return tiles() * results_per_tile(arithmetic); }
};

// Takes the results of all pieces of one box, in their order.
class Consumer {
 public:
  virtual ~Consumer() = default;
  virtual void take(const Piece& piece, std::span<const TileResult> results) = 0;
  // After the last piece.
  virtual void end() = 0;
};

// The box of a pair. With a cell, the box is summed on its own and then added to both.
std::unique_ptr<Consumer> pair_consumer(const tensor::Box& box, TileStats& into, CellSums* cell);
std::unique_ptr<Consumer> integer_consumer(const tensor::Box& box, TileStats& into);
std::unique_ptr<Consumer> noise_consumer(const tensor::Box& box, NoiseSums& into, std::size_t cell);
std::unique_ptr<Consumer> triple_consumer(const tensor::Box& box, TripleSums& into);
std::unique_ptr<Consumer> replica_consumer(double& squared_distance);

// Returns what the kernels give for a piece, computed by `cpu`.
std::vector<TileResult> results_on_cpu(const Backend& cpu, const Piece& piece);

}  // namespace ttrace::measure::cuda
