// How many bytes a second the inner loop of a comparison takes in, on one thread: every
// instruction set that this machine has, every element type, data in the cache and in memory. And
// the nanoseconds of a replayed element of an update: 1e9 over items_per_second.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "measure/cpu/cpu_backend.h"
#include "measure/cpu/kernel.h"
#include "tensor/codec.h"
#include "tools/synth/random.h"

namespace ttrace {
namespace {

constexpr std::array kDTypes{tensor::DType::kFloat64,    tensor::DType::kFloat32,
                             tensor::DType::kFloat16,    tensor::DType::kBFloat16,
                             tensor::DType::kFloat8E4M3, tensor::DType::kFloat8E5M2};
constexpr std::size_t kInMemory = std::size_t{1} << 26;  // bytes of either side

constexpr std::size_t kDifferent = std::size_t{1} << 20;  // elements; more would take long to make

// Normal numbers, as weights are.
std::vector<std::byte> stored_numbers(tensor::DType dtype, std::size_t count, std::uint64_t seed) {
  const std::size_t different = std::min(count, kDifferent);
  std::vector<std::uint32_t> words(different);
  synth::Stream::of_synthetic(seed, "synth", "kernel_bench").words(0, words);
  std::vector<double> values;
  for (const std::uint32_t word : words) values.push_back(double{synth::normal(word, 0, 1)});
  std::vector<std::byte> once(different * tensor::element_bytes(dtype));
  tensor::encode_floats(dtype, values, once);
  std::vector<std::byte> bytes(count * tensor::element_bytes(dtype));
  for (std::size_t at = 0; at < bytes.size(); ++at) bytes[at] = once[at % once.size()];
  return bytes;
}

void sum_tiles(benchmark::State& state, const measure::Kernel& kernel, tensor::DType dtype,
               std::size_t count) {
  const std::vector<std::byte> reference = stored_numbers(dtype, count, 1);
  const std::vector<std::byte> candidate = stored_numbers(dtype, count, 2);
  const measure::StoredType type = measure::stored_as(dtype);
  const std::size_t tile = measure::kTileElements * tensor::element_bytes(dtype);
  for (auto _ : state) {
    for (std::size_t at = 0; at < reference.size(); at += tile) {
      measure::TileSums sums;
      kernel.sum(type, reference.data() + at, candidate.data() + at, measure::kTileElements, sums);
      benchmark::DoNotOptimize(sums);
    }
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * 2 * reference.size()));
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * count));
}

// An update of a parameter; the states are stored as `state` and all else as `dtype`.
struct Update {
  Update(const measure::UpdateStep& step, tensor::DType dtype, tensor::DType state,
         std::size_t count) {
    request.step = step;
    const auto input = [&](tensor::DType as, std::uint64_t seed) {
      bytes.push_back(stored_numbers(as, count, seed));
      return measure::InputBox{tensor::whole({count}), {bytes.back(), as, 1}};
    };
    bytes.reserve(5);
    request.updated = input(dtype, 1);
    request.parameter = input(state, 1);
    request.gradient = input(dtype, 2);
    request.stats = &stats;
    request.sums = &sums;
    if (step.hyperparameters.algorithm == measure::Algorithm::kSgd) {
      request.momentum_buffer = input(state, 3);
      return;
    }
    request.exp_avg = input(state, 3);
    // The second moments: exponents of normal numbers without their signs.
    request.exp_avg_sq = input(state, 4);
    const std::size_t width = tensor::element_bytes(state);
    for (std::size_t at = width - 1; at < bytes.back().size(); at += width) {
      bytes.back()[at] &= std::byte{0x7f};
    }
  }

  measure::TileStats stats;
  measure::UpdateSums sums;
  measure::UpdateRequest request;
  std::vector<std::vector<std::byte>> bytes;
};

measure::UpdateStep step_of(measure::Algorithm algorithm, double clip, double bound) {
  measure::UpdateStep step;
  step.hyperparameters.algorithm = algorithm;
  step.hyperparameters.lr = 1e-4;
  step.hyperparameters.weight_decay = algorithm == measure::Algorithm::kSgd ? 0 : 0.01;
  step.hyperparameters.momentum = 0.9;
  step.hyperparameters.beta1 = 0.9;
  step.hyperparameters.beta2 = 0.999;
  step.hyperparameters.eps = 1e-8;
  step.hyperparameters.updates = 10;
  step.clip = clip;
  step.rounding.working = *measure::unit_roundoff(tensor::DType::kFloat32);
  step.rounding.gradient = 4 * step.rounding.working;
  step.rounding.smallest = measure::smallest_rounding(tensor::DType::kFloat32);
  step.rounding.largest = measure::largest_finite(tensor::DType::kFloat32);
  step.rounding.stored = bound;
  return step;
}

void replay_update(benchmark::State& state, const measure::Backend& backend,
                   const measure::UpdateStep& step, tensor::DType dtype, tensor::DType states) {
  constexpr std::size_t kElements = std::size_t{1} << 18;
  Update update(step, dtype, states, kElements);
  const auto batch = backend.new_batch();
  for (auto _ : state) {
    batch->add(update.request);
    batch->finish();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * kElements));
}

void add_updates(const measure::Kernel& kernel) {
  using measure::Algorithm;
  constexpr double kMoves = 1;  // every update is within its bound, as in a healthy run
  struct Case {
    const char* name;
    measure::UpdateStep step;
    tensor::DType dtype = tensor::DType::kFloat32;
    tensor::DType states = tensor::DType::kFloat32;
  };
  for (const Case& one : {
           Case{"adamw", step_of(Algorithm::kAdamW, 1, kMoves)},
           Case{"adamw_clipped", step_of(Algorithm::kAdamW, 0.5, kMoves)},
           Case{"adam_decay", step_of(Algorithm::kAdam, 1, kMoves)},
           Case{"adamw_bf16", step_of(Algorithm::kAdamW, 1, kMoves), tensor::DType::kBFloat16},
           Case{"adamw_f64", step_of(Algorithm::kAdamW, 1, kMoves), tensor::DType::kFloat64,
                tensor::DType::kFloat64},
           Case{"sgd", step_of(Algorithm::kSgd, 1, kMoves)},
       }) {
    const std::string name = std::string(kernel.isa) + "/replay/" + one.name;
    const measure::Backend& backend = measure::cpu_backend(kernel.isa);
    benchmark::RegisterBenchmark(name.c_str(), [=, &backend](benchmark::State& state) {
      replay_update(state, backend, one.step, one.dtype, one.states);
    });
  }
}

void add_benchmarks() {
  for (const measure::Kernel* kernel : measure::usable_kernels()) {
    add_updates(*kernel);
    for (const tensor::DType dtype : kDTypes) {
      const std::size_t in_memory = kInMemory / tensor::element_bytes(dtype);
      for (const std::size_t count : {measure::kTileElements, in_memory}) {
        const std::string name = std::string(kernel->isa) + "/" +
                                 std::string(tensor::dtype_short_name(dtype)) +
                                 (count == in_memory ? "/memory" : "/cache");
        benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
          sum_tiles(state, *kernel, dtype, count);
        });
      }
    }
  }
}

}  // namespace
}  // namespace ttrace

int main(int argc, char** argv) {
  ttrace::add_benchmarks();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
