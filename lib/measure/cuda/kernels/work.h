// What the kernels work on, as plain data in device memory, and what they return.
#pragma once

#include <cstdint>

#include "measure/optimizer/update_constants.h"
#include "tensor/dtype.h"

namespace ttrace::measure::cuda {

inline constexpr std::uint32_t kTile = 4096;  // elements; as kTileElements of the CPU
inline constexpr std::uint32_t kWarp = 32;    // one thread per lane of a tile's sums

// Consecutive elements: a number is the stored value × scale.
struct DeviceValues {
  const void* bits = nullptr;
  tensor::DType dtype = tensor::DType::kFloat32;
  double scale = 1;
};

// How the tiles of a launch are read and summed.
enum class TileArithmetic : std::uint32_t {
  kStored,    // two inputs of the same floating-point type, scale 1
  kNumbers,   // two inputs of any types
  kIntegers,  // two inputs of 64-bit integers, compared exactly
  kUpdates,   // an update of any types; gives the sums of a pair and an UpdateResult
};

// The inputs of an update: updated, parameter, gradient, momentum_buffer or exp_avg, exp_avg_sq,
// max_exp_avg_sq; absent ones have no bits.
inline constexpr std::uint32_t kMostInputs = 6;

// One run of elements, cut into tiles. Results of a job lie one after the other.
struct TileJob {
  DeviceValues inputs[kMostInputs];
  const UpdateFormula* formula = nullptr;  // of an update
  std::uint64_t elements = 0;
  std::uint64_t first_tile = 0;  // in the launch
};

// All jobs have the same arithmetic and, if stored values are compared, the same type.
struct TileLaunch {
  TileArithmetic arithmetic = TileArithmetic::kNumbers;
  tensor::DType dtype = tensor::DType::kFloat32;
  const TileJob* jobs = nullptr;  // by first_tile, none of them empty
  std::uint32_t job_count = 0;
  std::uint64_t tiles = 0;
  struct TileResult* results = nullptr;  // results_per_tile() for every tile
};

inline constexpr std::uint32_t kNowhere = 0xffffffffU;

// Sums over one tile. Pairs with a non-finite value are classified and left out of the sums.
struct TileResult {
  double d2 = 0;
  double d = 0;
  double r2 = 0;
  double c2 = 0;
  double rc = 0;
  double largest = 0;  // max |C - R|
  double reference_at = 0;
  double candidate_at = 0;
  std::uint32_t largest_at =
      kNowhere;               // the first element with that difference; exact for integers
  std::uint32_t unequal = 0;  // finite pairs; exact for integers
  std::uint32_t nonfinite_reference = 0;
  std::uint32_t nonfinite_candidate = 0;
  std::uint32_t nonfinite_equal = 0;
  std::uint32_t nonfinite_different = 0;
  std::uint32_t first_different = kNowhere;  // among the non-finite pairs
};

// The further results of an update (UpdateSums), stored as a TileResult: counts and sums of the
// judged elements, and the worst of the tile, as if its elements were the first ones.
struct UpdateResult {
  double bound2 = 0;
  double ratio = 0;   // of the worst; 0 if there is none
  double before = 0;  // the ratio that it exceeds
  double replayed = 0;
  double updated = 0;
  double bound = 0;
  std::uint32_t at = kNowhere;
  std::uint32_t unjudged = 0;
  std::uint32_t outside = 0;
  std::uint32_t unmoved = 0;
  std::uint32_t tiny = 0;  // elements whose bound is so small that ratios lose digits
  std::uint32_t unused[6] = {};
};
static_assert(sizeof(UpdateResult) == sizeof(TileResult));

inline constexpr std::uint32_t results_per_tile(TileArithmetic arithmetic) {
  return arithmetic == TileArithmetic::kUpdates ? 2 : 1;
}

// Sums over rows (RowsRequest). There is 1 sum, or 1 + 2 · norms with an input; `sums` holds of
// each the exact and then the stepwise one, of `length` numbers each.
struct RowsLaunch {
  DeviceValues gradient;
  DeviceValues input;  // no bits: none
  std::uint64_t rows = 0;
  std::uint64_t length = 0;
  tensor::DType precision = tensor::DType::kFloat32;
  std::uint32_t norms = 0;
  const double* epsilons = nullptr;
  double* moments = nullptr;  // mean, variance and mean square of every row
  double* sums = nullptr;
};

// An operand of a product: a row of a or a column of b is a line, whose elements are the steps of
// k.
struct DeviceOperand {
  const double* values = nullptr;
  std::uint64_t line_stride = 0;
  std::uint64_t step_stride = 0;
};

// c[i, j] = Σ_k a[i, k]·b[k, j], or c[i, j] + Σ with `add`; c is dense, of m × n elements.
struct ProductLaunch {
  std::uint64_t m = 0;
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  DeviceOperand a;
  DeviceOperand b;
  double* c = nullptr;
  bool add = false;
  bool exact_products = false;  // products of any two elements are exact, as in binary32
};

}  // namespace ttrace::measure::cuda
