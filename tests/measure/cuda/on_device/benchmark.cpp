#include "measure/cuda/on_device/benchmark.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>

#include "base/text.h"
#include "measure/cuda/conformance_data.h"
#include "measure/cuda/on_device/scratch.h"

namespace ttrace::test {
namespace {

using namespace measure::cuda;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kResidentBytes = 1024 * kMiB;  // of each side
constexpr std::uint64_t kStreamedBytes = 256 * kMiB;

// Statistics of two tensors in device memory. Their bits are those of ordinary numbers.
BenchmarkRow resident(const Api& api, std::uint32_t device, DType dtype, double copy_rate) {
  Scratch scratch(api, device);
  Draw draw(1);
  const std::uint64_t width = tensor::element_bytes(dtype);
  const std::uint64_t elements = kResidentBytes / width;
  const Values some(draw, dtype, 4 * kMiB, Pattern::kOrdinary);
  const std::span<const std::byte> bits = some.stored().bits;
  auto* const host = static_cast<std::byte*>(scratch.pinned(bits.size()));
  std::memcpy(host, bits.data(), bits.size());
  TileJob job;
  for (DeviceValues& side : {std::ref(job.inputs[0]), std::ref(job.inputs[1])}) {
    auto* const memory = static_cast<std::byte*>(scratch.memory(kResidentBytes));
    for (std::uint64_t at = 0; at < kResidentBytes; at += bits.size()) {
      scratch.copy(memory + at, host, std::min<std::uint64_t>(bits.size(), kResidentBytes - at));
    }
    side = {memory, dtype, 1};
  }
  job.elements = elements;
  void* const jobs = scratch.memory(sizeof job);
  scratch.copy(jobs, &job, sizeof job);
  scratch.wait();
  TileLaunch launch;
  launch.arithmetic = TileArithmetic::kStored;
  launch.dtype = dtype;
  launch.jobs = static_cast<const TileJob*>(jobs);
  launch.job_count = 1;
  launch.tiles = (elements + kTile - 1) / kTile;
  launch.results = static_cast<TileResult*>(scratch.memory(launch.tiles * sizeof(TileResult)));
  const double seconds = scratch.seconds([&] { scratch.launch(launch); });
  const double rate = 2.0 * static_cast<double>(kResidentBytes) / seconds;
  return {concat("resident ", tensor::dtype_short_name(dtype), ", all statistics"),
          text_of("%.0f GB/s, %.0f %% of copying", rate / 1e9, 100 * rate / copy_rate),
          ">= 85 % (f32, bf16)"};
}

// Bytes read and bytes written per second.
double device_copy_rate(const Api& api, std::uint32_t device) {
  Scratch scratch(api, device);
  void* const to = scratch.memory(kResidentBytes);
  void* const from = scratch.memory(kResidentBytes);
  const double seconds = scratch.seconds([&] { scratch.copy(to, from, kResidentBytes); });
  return 2.0 * static_cast<double>(kResidentBytes) / seconds;
}

double upload_rate(const Api& api, std::uint32_t device) {
  Scratch scratch(api, device);
  void* const to = scratch.memory(kStreamedBytes);
  void* const from = scratch.pinned(kStreamedBytes);
  const double seconds = scratch.seconds([&] { scratch.copy(to, from, kStreamedBytes); });
  return static_cast<double>(kStreamedBytes) / seconds;
}

double seconds_of(const std::function<void()>& work) {
  work();
  double least = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    least = std::min(least, taken.count());
  }
  return least;
}

BenchmarkRow streamed(const measure::Backend& backend, double upload) {
  Draw draw(2);
  const std::uint64_t elements = kStreamedBytes / sizeof(float);
  const Values some(draw, DType::kFloat32, elements, Pattern::kOrdinary);
  const tensor::Box box = tensor::whole({elements});
  const double seconds = seconds_of([&] {
    measure::TileStats stats;
    const std::unique_ptr<measure::Batch> batch = backend.new_batch();
    measure::PairRequest request{some.as(box), some.as(box), box};
    request.stats = &stats;
    batch->add(request);
    batch->finish();
  });
  const double rate = 2.0 * static_cast<double>(kStreamedBytes) / seconds;
  return {"one thread, pageable memory through a batch",
          text_of("%.1f GB/s, %.0f %% of uploading", rate / 1e9, 100 * rate / upload), ">= 90 %"};
}

BenchmarkRow small_tensors(const measure::Backend& backend) {
  constexpr std::uint64_t kTensors = 10'000;
  constexpr std::uint64_t kElements = 1024;
  Draw draw(3);
  const Values some(draw, DType::kFloat32, kElements, Pattern::kOrdinary);
  const tensor::Box box = tensor::whole({kElements});
  std::vector<measure::TileStats> stats(kTensors);
  const double seconds = seconds_of([&] {
    const std::unique_ptr<measure::Batch> batch = backend.new_batch();
    for (measure::TileStats& each : stats) {
      measure::PairRequest request{some.as(box), some.as(box), box};
      request.stats = &each;
      batch->add(request);
    }
    batch->finish();
  });
  return {"10,000 tensors of 4 KiB in one batch, with staging",
          text_of("%.2f ms (%.0f ns each)", seconds * 1e3, seconds * 1e9 / kTensors),
          "<= 5 ms on the device"};
}

}  // namespace

std::vector<BenchmarkRow> benchmark(const Api& api, std::uint32_t device,
                                    const measure::Backend& backend) {
  const double copy_rate = device_copy_rate(api, device);
  const double upload = upload_rate(api, device);
  std::vector<BenchmarkRow> rows{
      {"device-to-device copy, read + written", text_of("%.0f GB/s", copy_rate / 1e9, 0), ""},
      {"upload from pinned memory", text_of("%.1f GB/s", upload / 1e9, 0), ""}};
  for (const DType dtype : kFloatTypes) rows.push_back(resident(api, device, dtype, copy_rate));
  rows.push_back(streamed(backend, upload));
  rows.push_back(small_tensors(backend));
  return rows;
}

}  // namespace ttrace::test
