// The seam between reading tensors and computing on them. The measuring loops read boxes of tensors
// and hand them over as requests; a backend does the arithmetic. The CPU (cpu/cpu_backend.h) is the
// first backend and the judge of all others: each must give its results to the bit, so the order of
// every sum is part of this interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "measure/grid.h"
#include "measure/optimizer/step.h"
#include "measure/tile_stats.h"
#include "tensor/box.h"
#include "tensor/dtype.h"

namespace ttrace::measure {

// Elements as a shard stores them: a number is the stored value × scale. Decoded numbers are stored
// as kFloat64, decoded integers as kInt64 or kUInt64, with scale 1.
struct StoredValues {
  std::span<const std::byte> bits;
  tensor::DType dtype = tensor::DType::kFloat32;
  double scale = 1;
  // The device in whose memory the bits lie; nothing: the host. Set only for inputs of pairs
  // without a grid, and if the backend reads this device.
  std::optional<std::uint32_t> device = std::nullopt;
};

// A dense box of a tensor in memory, row-major.
struct InputBox {
  tensor::Box box;  // in coordinates of the logical tensor
  StoredValues values;
};

// Statistics of a pair of tensors over `box`, which lies within both inputs. The box is cut into
// tiles of kTileElements consecutive elements. A tile is summed in 32 lanes: element i goes to lane
// i mod 32, and lanes that are 16, 8, 4, 2 and 1 apart are added in turn. Tiles are added in
// order. Non-finite values are classified by position before any arithmetic and left out of
// the sums. Where both inputs are integers, `unequal` and `largest` are exact.
struct PairRequest {
  InputBox reference;
  InputBox candidate;
  tensor::Box box;
  // If given, cuts the box by its cells: every part is summed on its own and then added to its cell
  // and to `stats`. Null for integers.
  const Grid* grid = nullptr;
  CellSums* cells = nullptr;  // one per cell of the grid
  TileStats* stats = nullptr;
};

// The difference of one perturbed run from the reference.
struct NoiseSums {
  std::vector<CellSums> cells;  // one per cell of the grid
  double largest = 0;           // max |R' - R|
};

// Differences of N perturbed runs from the reference over `box`, summed in the cells of `grid` as
// those of a pair are.
struct NoiseRequest {
  InputBox reference;
  std::vector<InputBox> runs;
  tensor::Box box;
  const Grid* grid = nullptr;
  NoiseSums* sums = nullptr;  // one per run
};

// Sums over rows, per column.
struct ColumnSums {
  std::vector<double> exact;     // in binary64
  std::vector<double> stepwise;  // rounded to the accumulator's precision after every term
};

// Adds whole rows, first row first: g, and with an input x, for every ε, g·(x - mean)/√(variance +
// ε) and g·x/√(mean square + ε).
struct RowsRequest {
  InputBox gradient;
  std::optional<InputBox> input;  // of the gradient's box
  std::uint64_t length = 0;       // of a row
  tensor::DType precision = tensor::DType::kFloat32;
  std::span<const double> epsilons;
  ColumnSums* sums = nullptr;  // 1, or 1 + 2·epsilons with an input
};

// Distances of a shard's replicas from the first one. All have its type and size.
struct ReplicasRequest {
  StoredValues first;
  std::vector<std::span<const std::byte>> others;
  // One per other replica: ‖other - first‖². Infinite where a value that is not finite differs, at
  // least 1 for integers, and positive where any number differs; 0 if only the sign of zeros or the
  // payload of NaNs does.
  double* squared_distances = nullptr;
};

// The element with the largest error in units of its own bound.
struct WorstUpdate {
  double ratio = 0;  // |C - Q| / bound; infinite if the bound is 0
  tensor::Shape at;
  std::optional<ElementPlace> place;  // not set by a backend
  double replayed = 0;
  double candidate = 0;
  double bound = 0;
};

struct UpdateSums {
  std::uint64_t unmoved = 0;         // elements out of bounds that still have the old value
  std::uint64_t unjudged = 0;        // finite elements whose bound is not
  double sum_bound2 = 0;             // Σ bound² over the judged elements, in lanes as a pair
  std::optional<WorstUpdate> worst;  // nothing while all elements are exactly as replayed
};

// An updated parameter C against Q, which the optimizer's formula computes from the candidate's own
// inputs. All have the same box; inputs that do not exist are absent.
struct UpdateRequest {
  InputBox updated;
  InputBox parameter;
  std::optional<InputBox> gradient;
  std::optional<InputBox> momentum_buffer;
  std::optional<InputBox> exp_avg;
  std::optional<InputBox> exp_avg_sq;
  std::optional<InputBox> max_exp_avg_sq;
  UpdateStep step;
  // Merged with the statistics of the box, with Q as the reference; `unequal` counts the elements
  // out of bounds.
  TileStats* stats = nullptr;
  UpdateSums* sums = nullptr;
};

// Requests of one thread. A backend may compute when a request is added or later, many in one
// launch; it has written the results where the requests point once finish() returns. Until then the
// results must not move. Inputs are read before add() returns, so their memory may be reused; those
// in the memory of a device are read until finish() returns. Requests that point at the same result
// are applied in the order in which they were added. add() and finish() throw an input error if a
// device fails and the inputs in its memory are lost with it.
class Batch {
 public:
  virtual ~Batch() = default;

  virtual void add(const PairRequest& request) = 0;
  virtual void add(const NoiseRequest& request) = 0;
  virtual void add(const RowsRequest& request) = 0;
  virtual void add(const ReplicasRequest& request) = 0;
  virtual void add(const UpdateRequest& request) = 0;
  virtual void finish() = 0;
};

class ProductBackend;

// Its members may be called from several threads.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;             // "cpu", as reports say it
  virtual std::string instruction_set() const = 0;  // "x86-64-v4"
  // Says for the environment of a report what was computed elsewhere so far, and why; empty if
  // nothing was.
  virtual std::string remarks() const { return {}; }
  // Whether inputs of pairs may lie in the memory of this device (StoredValues::device).
  virtual bool reads_device(std::uint32_t) const { return false; }
  // How many small pairs should share a batch: more than one where a batch ends in a launch and a
  // wait.
  virtual std::size_t pairs_per_batch() const { return 1; }
  // Multiplies matrices for this backend (products.h); null leaves that to the CPU.
  virtual const ProductBackend* products() const { return nullptr; }
  virtual std::unique_ptr<Batch> new_batch() const = 0;
};

// The CPU with its fastest instruction set (cpu/cpu_backend.h).
const Backend& cpu_backend();

// What a command may use to do its work: threads, memory and a backend.
struct ExecutionContext {
  unsigned threads = 0;  // 0: one per core
  // Bounds the data that threads read and decode; fewer threads run if it is too little for all.
  std::uint64_t memory_bytes = std::numeric_limits<std::uint64_t>::max();
  const Backend* backend = &cpu_backend();

  // Returns at least 1.
  unsigned thread_count() const;

  // Calls base::parallel_for on thread_count() threads.
  void parallel_for(std::size_t count, const std::function<void(std::size_t)>& work) const;
};

}  // namespace ttrace::measure
