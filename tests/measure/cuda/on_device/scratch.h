// Memory and a stream of a device, and the time that work on them takes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "measure/cuda/api.h"

namespace ttrace::test {

inline void require(const measure::cuda::Api& api, measure::cuda::Status status) {
  if (status != measure::cuda::Status::kOk) throw std::runtime_error(api.last_error());
}

// Memory and a stream for one benchmark.
class Scratch {
 public:
  Scratch(const measure::cuda::Api& api, std::uint32_t device) : api_(api), device_(device) {
    require(api, api.create_stream(device, &stream_));
  }
  ~Scratch() {
    for (void* memory : memory_) api_.release(device_, memory);
    for (void* memory : pinned_) api_.release_pinned(device_, memory);
    api_.destroy_stream(device_, stream_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* memory(std::uint64_t bytes) {
    void* memory = nullptr;
    require(api_, api_.allocate(device_, bytes, &memory));
    memory_.push_back(memory);
    return memory;
  }
  void* pinned(std::uint64_t bytes) {
    void* memory = nullptr;
    require(api_, api_.allocate_pinned(device_, bytes, &memory));
    pinned_.push_back(memory);
    return memory;
  }
  void copy(void* to, const void* from, std::uint64_t bytes) {
    require(api_, api_.upload(device_, stream_, to, from, bytes));
  }
  void launch(const measure::cuda::TileLaunch& launch) {
    require(api_, api_.launch_tiles(device_, stream_, &launch));
  }
  void launch(const measure::cuda::ProductLaunch& launch) {
    require(api_, api_.launch_product(device_, stream_, &launch));
  }
  void* stream() const { return stream_; }
  void wait() { require(api_, api_.wait(device_, stream_)); }

  // The least seconds of `work`, which is queued ten times at once, and then three times over.
  double seconds(const std::function<void()>& work) {
    constexpr int kAtOnce = 10;
    double least = 1e9;
    work();
    wait();
    for (int i = 0; i < 3; ++i) {
      const auto start = std::chrono::steady_clock::now();
      for (int n = 0; n < kAtOnce; ++n) work();
      wait();
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      least = std::min(least, taken.count() / kAtOnce);
    }
    return least;
  }

 private:
  const measure::cuda::Api& api_;
  std::uint32_t device_;
  void* stream_ = nullptr;
  std::vector<void*> memory_;
  std::vector<void*> pinned_;
};

inline std::string text_of(const char* format, double a, double b) {
  char text[96];
  std::snprintf(text, sizeof text, format, a, b);
  return text;
}

}  // namespace ttrace::test
