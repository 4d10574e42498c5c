// Small pairs share a batch where a backend pays for every launch; no result depends on it.

#include <map>
#include <memory>
#include <span>

#include "base/text.h"
#include "engine/compare_traces.h"
#include "measure/cpu/cpu_backend.h"
#include "measure/cuda/cuda_backend.h"
#include "measure/cuda/host_runtime.h"
#include "report/told_json.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::engine::shared_batches_test {
namespace {

using comparison::CompareReport;
using judge::Outcome;
using measure::cuda::CudaBackend;
using test::HostRuntime;
using test::make_entry;
using test::MemoryTrace;

constexpr std::size_t kTensors = 600;
constexpr std::size_t kElements = 1024;

std::string name_of(std::size_t i) { return base::concat("layer.", i); }

// Small tensors, of which every tenth is changed by `change`, and one large one.
MemoryTrace trace_of(double change) {
  MemoryTrace made;
  for (std::size_t i = 0; i < kTensors; ++i) {
    std::vector<double> values(kElements);
    for (std::size_t e = 0; e < kElements; ++e) values[e] = static_cast<double>(i * 7 + e);
    if (i % 10 == 0) values[i] += change;
    made.put(make_entry(name_of(i), {kElements}), values);
  }
  made.put(make_entry("large", {3, 50'000}), std::vector<double>(150'000, 2 + change));
  return made;
}

// A trace in memory whose tensors lie on device 0.
class ResidentTrace : public trace::Source {
 public:
  ResidentTrace(const MemoryTrace& values, const measure::cuda::Api& api) : values_(values) {
    for (const trace::TensorEntry& entry : values.manifest().tensors) {
      const std::string dataset = trace::dataset_path(entry.key);
      const auto on_host = values.open(0, dataset);
      const tensor::Shape& shape = on_host->facts().shape;
      std::vector<std::byte> bits(tensor::volume(tensor::whole(shape)) * sizeof(float));
      on_host->read(tensor::whole(shape), bits);
      memory_.emplace(dataset, std::pair(test::new_device_memory(0, bits), bits.size()));
    }
    api_ = &api;
  }
  ~ResidentTrace() override {
    for (const auto& [dataset, memory] : memory_) api_->release(0, memory.first);
  }

  const std::string& path() const override { return values_.path(); }
  const trace::Manifest& manifest() const override { return values_.manifest(); }
  std::string rank_file(std::uint64_t rank) const override { return values_.rank_file(rank); }
  std::optional<std::string> rank_problem(std::uint64_t rank) const override {
    return values_.rank_problem(rank);
  }
  std::unique_ptr<trace::Dataset> open(std::uint64_t rank,
                                       const std::string& dataset) const override {
    const auto [memory, size] = memory_.at(dataset);
    return std::make_unique<OnDevice>(values_.open(rank, dataset), memory, size);
  }

 private:
  class OnDevice : public trace::Dataset {
   public:
    OnDevice(std::unique_ptr<trace::Dataset> on_host, void* memory, std::size_t size)
        : on_host_(std::move(on_host)), memory_(static_cast<const std::byte*>(memory), size) {}
    const trace::DatasetFacts& facts() const override { return on_host_->facts(); }
    void read(const tensor::Box& box, std::span<std::byte> out) const override {
      on_host_->read(box, out);
    }
    std::optional<trace::DeviceMemory> device_memory() const override {
      return trace::DeviceMemory{0, memory_};
    }

   private:
    std::unique_ptr<trace::Dataset> on_host_;
    std::span<const std::byte> memory_;
  };

  const MemoryTrace& values_;
  const measure::cuda::Api* api_ = nullptr;
  std::map<std::string, std::pair<void*, std::size_t>> memory_;
};

CompareReport compared(const trace::Source& reference, const trace::Source& candidate,
                       const measure::Backend& backend, unsigned threads) {
  CompareOptions options;
  options.execution.threads = threads;
  options.execution.backend = &backend;
  return compare_traces(reference, candidate, {}, options);
}

std::string text_of(CompareReport report) {
  report.environment = {};
  return test::json_text(report, {});
}

TEST_CASE("small pairs share launches, and the report is the same", "[cuda]") {
  const MemoryTrace reference = trace_of(0);
  const MemoryTrace candidate = trace_of(0.5);
  const std::string expected = text_of(compared(reference, candidate, measure::cpu_backend(), 1));
  CHECK(measure::cpu_backend().pairs_per_batch() == 1);
  for (const unsigned threads : {1U, 3U}) {
    const CudaBackend backend(test::host_runtime({}), {0}, {}, measure::cpu_backend());
    CHECK(text_of(compared(reference, candidate, backend, threads)) == expected);
    CHECK(test::host_runtime_counts().mistakes == test::Mistakes());
    CHECK(backend.remarks().empty());
    // Causes of divergences launch on their own: counted without any.
    const std::uint64_t before = test::host_runtime_counts().launches;
    compared(reference, reference, backend, threads);
    CHECK(test::host_runtime_counts().launches - before <= 5 * threads);
  }
}

TEST_CASE("small tensors in the memory of a device share launches", "[cuda]") {
  const MemoryTrace values = trace_of(0);
  const std::string expected = text_of(compared(values, values, measure::cpu_backend(), 1));
  const measure::cuda::Api& api = test::host_runtime({});
  const ResidentTrace resident(values, api);
  const CudaBackend backend(api, {0}, {}, measure::cpu_backend());
  CHECK(text_of(compared(resident, resident, backend, 2)) == expected);
  CHECK(test::host_runtime_counts().launches <= 10);
  CHECK(test::host_runtime_counts().mistakes == test::Mistakes());
  CHECK(backend.remarks().empty());
}

TEST_CASE("a device lost while pairs share a batch changes no result", "[cuda]") {
  const MemoryTrace reference = trace_of(0);
  const MemoryTrace candidate = trace_of(0.5);
  const std::string expected = text_of(compared(reference, candidate, measure::cpu_backend(), 1));
  for (const std::uint64_t operations : {0, 4, 7}) {
    HostRuntime failing;
    failing.lost_after = operations;
    const CudaBackend backend(test::host_runtime(failing), {0}, {}, measure::cpu_backend());
    CHECK(text_of(compared(reference, candidate, backend, 2)) == expected);
    CHECK(backend.remarks().find("cuda:0 was lost") != std::string::npos);
  }
}

TEST_CASE("a pair that cannot be read spoils no other pair of its batch", "[cuda]") {
  const MemoryTrace reference = trace_of(0);
  MemoryTrace candidate = trace_of(0.5);
  for (const std::size_t broken : {std::size_t{5}, std::size_t{300}}) {
    candidate.put_bits(test::make_key(name_of(broken)), 0, tensor::DType::kFloat32, {3},
                       std::vector<std::byte>(12));
  }
  const std::string expected = text_of(compared(reference, candidate, measure::cpu_backend(), 1));
  const CudaBackend backend(test::host_runtime({}), {0}, {}, measure::cpu_backend());
  const CompareReport report = compared(reference, candidate, backend, 2);
  CHECK(text_of(report) == expected);
  std::size_t unreadable = 0;
  for (const auto& result : report.results) {
    unreadable += result.outcome == Outcome::kUnreadable ? 1 : 0;
  }
  CHECK(unreadable == 2);
}

}  // namespace
}  // namespace ttrace::engine::shared_batches_test
