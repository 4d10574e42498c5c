// The inner loop: decodes one tile of stored values and sums over it. The result has the same bits
// on every instruction set. Uses plain C types only: if the kernels' objects defined anything that
// others share, such as a template, the linker could take it from there, and an old machine would
// execute instructions that it lacks.
#pragma once

#include <cstddef>
#include <vector>

#include "measure/optimizer/update_constants.h"
#include "tensor/dtype.h"

namespace ttrace::measure {

inline constexpr std::size_t kTileElements = 4096;
inline constexpr std::size_t kLanes = 32;

enum class StoredType { kF64, kF32, kF16, kBF16, kF8E4M3, kF8E5M2 };

struct TileSums {
  double d2 = 0;  // Σ (C - R)²
  double d = 0;   // Σ (C - R)
  double r2 = 0;
  double c2 = 0;
  double rc = 0;
  double largest = 0;       // max |C - R|
  std::size_t unequal = 0;  // pairs with C != R
};

// Adds up `count` ≤ kTileElements pairs, stored one after the other on both sides, at any address.
// Correct for finite values. If one is not finite, r2 or c2 is not finite either (as if squares of
// finite values overflow). Element i goes to lane i mod 32; lanes are added in a fixed
// tree.
using SumTile = void (*)(StoredType type, const void* reference, const void* candidate,
                         std::size_t count, TileSums& sums);

// Elements that lie side by side wherever a tile is scattered over a larger array.
inline constexpr std::size_t kPlacedTogether = 16;

// The elements of a tile where they lie: kPlacedTogether at each offset, perhaps fewer at the last.
struct PlacedValues {
  const void* values = nullptr;
  const std::size_t* offsets = nullptr;  // in bytes
  double scale = 1;                      // a number is the stored value times this
};

// Does what SumTile does, for values that are scattered or scaled.
using SumPlacedTile = void (*)(StoredType type, const PlacedValues& reference,
                               const PlacedValues& candidate, std::size_t count, TileSums& sums);

// Numbers that are stored one after the other, at any address.
struct StoredColumn {
  StoredType type = StoredType::kF64;
  const void* values = nullptr;  // null: all are 0
};

// parameter, gradient, momentum_buffer or exp_avg, exp_avg_sq, max_exp_avg_sq
inline constexpr std::size_t kUpdateInputs = 5;

// Up to kTileElements elements of an update.
struct UpdateTile {
  std::size_t count = 0;
  StoredColumn updated;
  StoredColumn inputs[kUpdateInputs];
};

struct UpdateTileSums {
  TileSums pair;      // with the replayed values as the reference; `unequal` is not counted
  double bound2 = 0;  // Σ bound²
  bool beyond = false;
};

// Writes the decoded updated values, the replayed ones and their bounds, one per element.
using ReplayTile = void (*)(const UpdateFormula& formula, const UpdateTile& tile, double* updated,
                            double* replayed, double* bounds);

// Replays the tile and adds it up in the lanes and the order of SumTile. `beyond`: whether
// |updated - replayed| of any element is larger than worst · bound. Correct for finite values and
// bounds, as SumTile is: if a bound is not finite, bound2 is not either.
using JudgeTile = void (*)(const UpdateFormula& formula, const UpdateTile& tile, double worst,
                           UpdateTileSums& sums);

struct Kernel {
  const char* isa;  // "x86-64-v4"
  SumTile sum;
  SumPlacedTile sum_placed;
  ReplayTile replay;
  JudgeTile judge;
};

// One per instruction set that this build has.
extern const Kernel kBaselineKernel;
extern const Kernel kX8664V3Kernel;  // only where the target is x86-64
extern const Kernel kX8664V4Kernel;

// Those that this machine can run, the fastest first; never empty.
const std::vector<const Kernel*>& usable_kernels();
// The fastest that base::instruction_sets() allows.
const Kernel& kernel_in_use();

// Returns how a kernel reads a floating-point type; throws an internal error for others.
StoredType stored_as(tensor::DType dtype);

}  // namespace ttrace::measure
