#include "measure/cpu/cpu_backend.h"

#include "base/error.h"
#include "measure/cpu/kernel.h"
#include "measure/cpu/pair.h"
#include "measure/cpu/replay.h"
#include "measure/cpu/tiles.h"

namespace ttrace::measure {
namespace {

class CpuBatch : public Batch {
 public:
  explicit CpuBatch(const Kernel& kernel) : kernel_(kernel) {}

  void add(const PairRequest& request) override { compute(kernel_, request); }
  void add(const NoiseRequest& request) override { compute(kernel_, request); }
  void add(const RowsRequest& request) override { compute(request); }
  void add(const ReplicasRequest& request) override { compute(request); }
  void add(const UpdateRequest& request) override { compute(kernel_, request); }
  void finish() override {}

 private:
  const Kernel& kernel_;
};

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const Kernel& kernel) : kernel_(kernel) {}

  std::string name() const override { return "cpu"; }
  std::string instruction_set() const override { return kernel_.isa; }
  std::unique_ptr<Batch> new_batch() const override { return std::make_unique<CpuBatch>(kernel_); }

 private:
  const Kernel& kernel_;
};

// One per usable kernel, the fastest first.
const std::vector<CpuBackend>& backends() {
  static const std::vector<CpuBackend> all = [] {
    std::vector<CpuBackend> made;
    for (const Kernel* kernel : usable_kernels()) made.emplace_back(*kernel);
    return made;
  }();
  return all;
}

}  // namespace

const Backend& cpu_backend() { return cpu_backend(kernel_in_use().isa); }

const Backend& cpu_backend(std::string_view isa) {
  std::string known;
  for (const CpuBackend& backend : backends()) {
    if (backend.instruction_set() == isa) return backend;
    known += (known.empty() ? "" : ", ") + backend.instruction_set();
  }
  throw base::usage_error("--isa ", isa, ": this machine and this build have ", known);
}

TileStats box_stats(const tensor::Box& box, std::span<const double> reference,
                    std::span<const double> candidate) {
  const auto input = [&](std::span<const double> values) {
    return InputBox{box, {std::as_bytes(values), tensor::DType::kFloat64, 1}};
  };
  TileStats stats;
  PairRequest request{input(reference), input(candidate), box};
  request.stats = &stats;
  compute(kernel_in_use(), request);
  return stats;
}

}  // namespace ttrace::measure
