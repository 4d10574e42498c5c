// What a kernel may ask of its thread. Kernels are function templates over an execution: on a GPU
// it is DeviceExecution below; in tests a class of the same interface runs the same source on the
// host (tests/measure/cuda/host_execution.h).
//
//   thread(), block(), block_threads()   as threadIdx.x, blockIdx.x, blockDim.x
//   down(value, distance)                the value of the lane `distance` above; own past the last
//   from(value, lane)                    the value of a lane
//   ballot(condition)                    bit n: whether it holds in lane n
//   sync()                               waits for all threads of the block
//   shared<T, n>()                       n values of the block, with load(i) and store(i, value)
//
// All 32 lanes of a warp call down(), from() and ballot() together, and all threads of a block
// sync().
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define TTRACE_DEVICE __device__ __forceinline__
#define TTRACE_UNROLL _Pragma("unroll")
#define TTRACE_UNROLL_4 _Pragma("unroll 4")
#else
#define TTRACE_DEVICE inline
#define TTRACE_UNROLL
#define TTRACE_UNROLL_4
#endif

namespace ttrace::measure::cuda {

// The bits of one type as another of its size.
template <typename To, typename From>
TTRACE_DEVICE To same_bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(static_cast<void*>(&to), &from, sizeof to);
  return to;
}

#ifdef __CUDACC__

template <typename T>
class DeviceShared {
 public:
  TTRACE_DEVICE explicit DeviceShared(T* values) : values_(values) {}
  TTRACE_DEVICE T load(std::uint32_t i) const { return values_[i]; }
  TTRACE_DEVICE void store(std::uint32_t i, T value) const { values_[i] = value; }

 private:
  T* values_;
};

class DeviceExecution {
 public:
  TTRACE_DEVICE std::uint32_t thread() const { return threadIdx.x; }
  TTRACE_DEVICE std::uint64_t block() const { return blockIdx.x; }
  TTRACE_DEVICE std::uint32_t block_threads() const { return blockDim.x; }

  template <typename T>
  TTRACE_DEVICE T down(T value, std::uint32_t distance) const {
    return __shfl_down_sync(0xffffffffU, value, distance);
  }
  template <typename T>
  TTRACE_DEVICE T from(T value, std::uint32_t lane) const {
    return __shfl_sync(0xffffffffU, value, lane);
  }
  TTRACE_DEVICE std::uint32_t ballot(bool condition) const {
    return __ballot_sync(0xffffffffU, condition ? 1 : 0);
  }
  TTRACE_DEVICE void sync() const { __syncthreads(); }

  template <typename T, std::uint32_t kCount>
  TTRACE_DEVICE DeviceShared<T> shared() const {
    __shared__ T values[kCount];
    return DeviceShared<T>(values);
  }
};

#endif

}  // namespace ttrace::measure::cuda
