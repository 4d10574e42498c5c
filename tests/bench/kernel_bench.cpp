// How many bytes a second the inner loop of a comparison takes in, on one thread: every
// instruction set that this machine has, every element type, data in the cache and in memory.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "measure/cpu/kernel.h"
#include "synth/random.h"
#include "tensor/codec.h"

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
  std::vector<float> numbers(different);
  synth::fill_normal(synth::Stream::of_synthetic(seed, "synth", "kernel_bench"), {different},
                     tensor::whole({different}), 0, 1, numbers);
  const std::vector<double> values(numbers.begin(), numbers.end());
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
  const measure::Stored type = measure::stored_as(dtype);
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

void add_benchmarks() {
  for (const measure::Kernel* kernel : measure::usable_kernels()) {
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
