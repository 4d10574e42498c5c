// Pairs whose values already lie in the memory of a device, compared with the CPU, bit for bit. As
// conformance.h, for the tests and for a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "measure/cuda/api.h"
#include "measure/cuda/conformance.h"

namespace ttrace::test {

// Allocates on `device`, which must be one of `backend`.
Conformance check_resident(const measure::cuda::Api& api, std::uint32_t device,
                           const measure::Backend& backend, std::uint64_t seed);

// Memory of a device that holds a copy of some bytes.
class Resident {
 public:
  Resident(const measure::cuda::Api& api, std::uint32_t device, std::span<const std::byte> bytes);
  ~Resident();
  Resident(const Resident&) = delete;
  Resident& operator=(const Resident&) = delete;

  std::span<const std::byte> bytes() const { return {memory_, size_}; }

 private:
  const measure::cuda::Api& api_;
  std::uint32_t device_;
  std::byte* memory_ = nullptr;
  std::size_t size_;
};

}  // namespace ttrace::test
