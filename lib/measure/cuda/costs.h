// What work costs on the CPU and on a device: the constants behind every choice between them. They
// are conservative for the device, so that it is only taken where it wins on machines of any kind
// (scripts/BENCHMARKS.md says which of them were measured, and where).
#pragma once

#include <algorithm>
#include <cstdint>

namespace ttrace::measure::cuda {

struct Costs {
  // Bytes that one thread copies per second between ordinary and pinned memory, while the device
  // copies what was there before.
  double staged_bytes = 8e9;
  // Bytes that one thread reads, decodes and adds up per second.
  double cpu_summed_bytes = 14e9;
  // Multiplications, each with an addition, per second: of one thread, and of a device.
  double cpu_products = 12.5e9;
  double device_products = 1e12;
  // Seconds for the memory, copies and launches of one product.
  double product_start = 2e-3;

  // Whether a device multiplies matrices sooner than `threads` threads do.
  bool product_pays(std::uint64_t m, std::uint64_t n, std::uint64_t k, unsigned threads) const {
    const auto of = [](std::uint64_t count) { return static_cast<double>(count); };
    const double work = of(m) * of(n) * of(k);
    const double bytes = sizeof(double) * (of(m) * of(k) + of(k) * of(n) + of(m) * of(n));
    const double on_device = product_start + bytes / staged_bytes + work / device_products;
    return on_device < work / (cpu_products * std::max(1U, threads));
  }

  // Whether a device measures the tensors of files sooner: a thread that stages bytes does nothing
  // else with them.
  constexpr bool files_pay() const { return staged_bytes > cpu_summed_bytes; }
};

}  // namespace ttrace::measure::cuda
