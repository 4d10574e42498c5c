// Replays the update of one tile, and judges it. Part of kernel_source.cpp: the linker must not see
// it.
#pragma once

#include "measure/cpu/kernel.h"
#include "measure/cpu/vector_math.h"
#include "measure/cpu/vectors.h"
#include "measure/optimizer/update_formula.h"

namespace ttrace::measure {
namespace {

// Elements that are replayed before they are summed: what a block needs stays in the first-level
// cache.
constexpr std::size_t kBlockElements = 512;

template <typename Type>
constexpr typename Type::Bits kZeros[kBlockElements] = {};

template <typename Type>
void decode_block(const void* from, std::size_t count, double* to) {
  using Bits = typename Type::Bits;
  const char* stored = static_cast<const char*>(from);
  constexpr std::size_t kStep = kWidth * kApart<Type>;
  const auto add = [&](const char* at, double* out) __attribute__((always_inline)) {
    if constexpr (kApart<Type> == 1) {
      const Doubles numbers = read<Type, 0>(at);
      __builtin_memcpy(out, &numbers, sizeof numbers);
    } else {
      const Doubles even = read<Type, 0>(at);
      const Doubles odd = read<Type, 1>(at);
      for (std::size_t i = 0; i < kWidth; ++i) {
        out[2 * i] = even[i];
        out[2 * i + 1] = odd[i];
      }
    }
  };
  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep) add(stored + i * sizeof(Bits), to + i);
  if (i < count) {
    Bits rest[kStep] = {};
    double numbers[kStep];
    __builtin_memcpy(rest, stored + i * sizeof(Bits), (count - i) * sizeof(Bits));
    add(reinterpret_cast<const char*>(rest), numbers);
    __builtin_memcpy(to + i, numbers, (count - i) * sizeof(double));
  }
}

void decode_any(StoredType type, const void* from, std::size_t count, double* to) {
  switch (type) {
    case StoredType::kF64:
      return decode_block<F64>(from, count, to);
    case StoredType::kF32:
      return decode_block<F32>(from, count, to);
    case StoredType::kF16:
      return decode_block<F16>(from, count, to);
    case StoredType::kBF16:
      return decode_block<BF16>(from, count, to);
    case StoredType::kF8E4M3:
      return decode_block<F8E4M3>(from, count, to);
    case StoredType::kF8E5M2:
      return decode_block<F8E5M2>(from, count, to);
  }
}

std::size_t bytes_of(StoredType type) {
  switch (type) {
    case StoredType::kF64:
      return sizeof(double);
    case StoredType::kF32:
      return sizeof(float);
    case StoredType::kF16:
    case StoredType::kBF16:
      return 2;
    case StoredType::kF8E4M3:
    case StoredType::kF8E5M2:
      return 1;
  }
  return 0;
}

// The numbers that are replayed, all of one type.
struct Columns {
  const char* parameter;
  const char* gradient;
  const char* state;
  const char* exp_avg_sq;
  const char* max_exp_avg_sq;
};

template <typename Type>
[[gnu::always_inline]] inline UpdateInputs<Doubles> inputs_at(const Columns& from, std::size_t i) {
  const std::size_t at = i * sizeof(typename Type::Bits);
  return {read<Type, 0>(from.parameter + at), read<Type, 0>(from.gradient + at),
          read<Type, 0>(from.state + at), read<Type, 0>(from.exp_avg_sq + at),
          read<Type, 0>(from.max_exp_avg_sq + at)};
}

struct CopyStep {
  [[gnu::always_inline]] static Bounded<Doubles> of(const UpdateFormula&,
                                                    const UpdateInputs<Doubles>& in) {
    return {in.parameter, Doubles{}};
  }
};

template <GradientKind kGradient>
struct SgdStep {
  [[gnu::always_inline]] static Bounded<Doubles> of(const UpdateFormula& f,
                                                    const UpdateInputs<Doubles>& in) {
    return sgd_step<VectorMath, kGradient>(f, in);
  }
};

template <GradientKind kGradient, bool kAmsgrad>
struct AdamStep {
  [[gnu::always_inline]] static Bounded<Doubles> of(const UpdateFormula& f,
                                                    const UpdateInputs<Doubles>& in) {
    return adam_step<VectorMath, kGradient, kAmsgrad>(f, in);
  }
};

template <typename Type, typename Step>
void replay_block(const UpdateFormula& formula, const Columns& from, std::size_t count,
                  double* replayed, double* bounds) {
  const UpdateFormula f = formula;
  const auto put = [&](const Columns& at, std::size_t i, double* values, double* errors)
      __attribute__((always_inline)) {
    const Bounded<Doubles> step = Step::of(f, inputs_at<Type>(at, i));
    __builtin_memcpy(values + i, &step.value, sizeof step.value);
    __builtin_memcpy(errors + i, &step.error, sizeof step.error);
  };
  std::size_t i = 0;
  for (; i + kWidth <= count; i += kWidth) put(from, i, replayed, bounds);
  if (i == count) return;
  constexpr std::size_t kBytes = sizeof(typename Type::Bits);
  char rest[5][kWidth * kBytes] = {};
  const char* const columns[5] = {from.parameter, from.gradient, from.state, from.exp_avg_sq,
                                  from.max_exp_avg_sq};
  for (std::size_t c = 0; c < 5; ++c) {
    __builtin_memcpy(rest[c], columns[c] + i * kBytes, (count - i) * kBytes);
  }
  double values[kWidth];
  double errors[kWidth];
  put({rest[0], rest[1], rest[2], rest[3], rest[4]}, 0, values, errors);
  __builtin_memcpy(replayed + i, values, (count - i) * sizeof(double));
  __builtin_memcpy(bounds + i, errors, (count - i) * sizeof(double));
}

using ReplayBlock = void (*)(const UpdateFormula&, const Columns&, std::size_t, double*, double*);

template <typename Type, GradientKind kGradient>
ReplayBlock step_of(const UpdateFormula& f) {
  if (f.kind == UpdateKind::kSgd) return replay_block<Type, SgdStep<kGradient>>;
  return f.amsgrad ? replay_block<Type, AdamStep<kGradient, true>>
                   : replay_block<Type, AdamStep<kGradient, false>>;
}

template <typename Type>
ReplayBlock step_of(const UpdateFormula& f) {
  if (f.kind == UpdateKind::kCopy) return replay_block<Type, CopyStep>;
  switch (f.gradient) {
    case GradientKind::kExact:
      return step_of<Type, GradientKind::kExact>(f);
    case GradientKind::kClipped:
      return step_of<Type, GradientKind::kClipped>(f);
    case GradientKind::kDecayed:
      break;
  }
  return step_of<Type, GradientKind::kDecayed>(f);
}

// Reads the inputs of a tile block by block: as they are stored where all are float32, else
// decoded.
class BlockReplay {
 public:
  BlockReplay(const UpdateFormula& formula, const UpdateTile& tile)
      : formula_(formula), tile_(tile), stored_(true) {
    for (const StoredColumn& column : tile.inputs) {
      if (column.values != nullptr && column.type != StoredType::kF32) stored_ = false;
    }
    step_ = stored_ ? step_of<F32>(formula) : step_of<F64>(formula);
  }

  // Replays `count` ≤ kBlockElements elements from `first` on.
  void replay(std::size_t first, std::size_t count, double* replayed, double* bounds) {
    const char* columns[kUpdateInputs];
    for (std::size_t c = 0; c < kUpdateInputs; ++c) columns[c] = column(c, first, count);
    step_(formula_, {columns[0], columns[1], columns[2], columns[3], columns[4]}, count, replayed,
          bounds);
  }

 private:
  const char* column(std::size_t c, std::size_t first, std::size_t count) {
    const StoredColumn& from = tile_.inputs[c];
    if (from.values == nullptr) {
      return stored_ ? reinterpret_cast<const char*>(kZeros<F32>)
                     : reinterpret_cast<const char*>(kZeros<F64>);
    }
    const char* at = static_cast<const char*>(from.values) + first * bytes_of(from.type);
    if (stored_ || from.type == StoredType::kF64) return at;
    decode_any(from.type, at, count, decoded_[c]);
    return reinterpret_cast<const char*>(decoded_[c]);
  }

  const UpdateFormula& formula_;
  const UpdateTile& tile_;
  bool stored_;
  ReplayBlock step_;
  double decoded_[kUpdateInputs][kBlockElements];
};

void replay_tile(const UpdateFormula& formula, const UpdateTile& tile, double* updated,
                 double* replayed, double* bounds) {
  BlockReplay blocks(formula, tile);
  decode_any(tile.updated.type, tile.updated.values, tile.count, updated);
  for (std::size_t first = 0; first < tile.count; first += kBlockElements) {
    const std::size_t left = tile.count - first;
    const std::size_t count = left < kBlockElements ? left : kBlockElements;
    blocks.replay(first, count, replayed + first, bounds + first);
  }
}

struct UpdateLanes {
  double d2[kLanes] = {};
  double d[kLanes] = {};
  double r2[kLanes] = {};
  double c2[kLanes] = {};
  double rc[kLanes] = {};
  double largest[kLanes] = {};
  double bound2[kLanes] = {};
};

#if defined(__AVX512F__)
constexpr std::size_t kUpdateVectors = 2;
#else
constexpr std::size_t kUpdateVectors = 1;
#endif

[[gnu::always_inline]] inline Doubles load(const double* from) {
  Doubles numbers;
  __builtin_memcpy(&numbers, from, sizeof numbers);
  return numbers;
}

// Adds `count` elements, a multiple of kLanes, to the lanes. Returns whether the difference of any
// is larger than `worst` times its bound.
template <typename Type>
bool add_to_lanes(const char* updated, const double* replayed, const double* bounds,
                  std::size_t count, double worst, UpdateLanes& lanes) {
  constexpr std::size_t kStep = kWidth * kUpdateVectors;
  VectorMath::Mask beyond = {};
  for (std::size_t first = 0; first < kLanes; first += kStep) {
    Doubles d2[kUpdateVectors], d[kUpdateVectors], r2[kUpdateVectors], c2[kUpdateVectors],
        rc[kUpdateVectors], largest[kUpdateVectors], bound2[kUpdateVectors];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kUpdateVectors; ++v) {
      const std::size_t lane = first + v * kWidth;
      d2[v] = load(lanes.d2 + lane);
      d[v] = load(lanes.d + lane);
      r2[v] = load(lanes.r2 + lane);
      c2[v] = load(lanes.c2 + lane);
      rc[v] = load(lanes.rc + lane);
      largest[v] = load(lanes.largest + lane);
      bound2[v] = load(lanes.bound2 + lane);
    }
    for (std::size_t i = first; i < count; i += kLanes) {
#pragma GCC unroll 8
      for (std::size_t v = 0; v < kUpdateVectors; ++v) {
        const Doubles c = read<Type, 0>(updated + (i + v * kWidth) * sizeof(typename Type::Bits));
        const Doubles r = load(replayed + i + v * kWidth);
        const Doubles bound = load(bounds + i + v * kWidth);
        const Doubles difference = c - r;
        d2[v] += difference * difference;
        d[v] += difference;
        r2[v] += r * r;
        c2[v] += c * c;
        rc[v] += r * c;
        bound2[v] += bound * bound;
        largest[v] = larger_magnitude(difference, largest[v]);
        beyond = VectorMath::either(
            beyond, VectorMath::less(worst * bound, VectorMath::magnitude(difference)));
      }
    }
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kUpdateVectors; ++v) {
      const std::size_t lane = first + v * kWidth;
      store(d2[v], lanes.d2 + lane);
      store(d[v], lanes.d + lane);
      store(r2[v], lanes.r2 + lane);
      store(c2[v], lanes.c2 + lane);
      store(rc[v], lanes.rc + lane);
      store(largest[v], lanes.largest + lane);
      store(bound2[v], lanes.bound2 + lane);
    }
  }
  return VectorMath::any(beyond);
}

void judge_tile(const UpdateFormula& formula, const UpdateTile& tile, double worst,
                UpdateTileSums& sums) {
  BlockReplay blocks(formula, tile);
  UpdateLanes lanes;
  sums.beyond = false;
  const std::size_t width = bytes_of(tile.updated.type);
  const char* updated = static_cast<const char*>(tile.updated.values);
  double values[kBlockElements];
  double replayed[kBlockElements];
  double bounds[kBlockElements];
  for (std::size_t first = 0; first < tile.count; first += kBlockElements) {
    const std::size_t left = tile.count - first;
    const std::size_t count = left < kBlockElements ? left : kBlockElements;
    const char* here = updated + first * width;
    blocks.replay(first, count, replayed, bounds);
    if (tile.updated.type == StoredType::kF32 && count % kLanes == 0) {
      if (add_to_lanes<F32>(here, replayed, bounds, count, worst, lanes)) sums.beyond = true;
      continue;
    }
    decode_any(tile.updated.type, here, count, values);
    std::size_t filled = count;
    for (; filled % kLanes != 0; ++filled) values[filled] = replayed[filled] = bounds[filled] = 0;
    here = reinterpret_cast<const char*>(values);
    if (add_to_lanes<F64>(here, replayed, bounds, filled, worst, lanes)) sums.beyond = true;
  }
  sums.pair.largest = 0;
  for (const double size : lanes.largest) {
    sums.pair.largest = size > sums.pair.largest ? size : sums.pair.largest;
  }
  sums.pair.d2 = folded<1>(lanes.d2);
  sums.pair.d = folded<1>(lanes.d);
  sums.pair.r2 = folded<1>(lanes.r2);
  sums.pair.c2 = folded<1>(lanes.c2);
  sums.pair.rc = folded<1>(lanes.rc);
  sums.bound2 = folded<1>(lanes.bound2);
}

}  // namespace
}  // namespace ttrace::measure
