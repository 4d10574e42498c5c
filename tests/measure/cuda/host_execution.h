// Runs a kernel's source on the host: a grid block by block, every thread of a block as a fiber
// that runs until it waits for others (a shuffle of its warp, a barrier of its block). Reads and
// writes of shared memory are recorded, so that two threads that touch the same value without a
// barrier in between are seen as a race, whatever order they happen to run in.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "measure/cuda/fibers.h"

namespace ttrace::test {

// What is wrong with a kernel: races, threads that wait for others which never come.
using Mistakes = std::vector<std::string>;

inline constexpr std::uint32_t kHostWarp = 32;

// Shared memory of one block with the record of who touched what, and when.
class SharedRecord {
 public:
  SharedRecord(std::size_t values, std::size_t bytes, Mistakes& mistakes)
      : memory_(values * bytes), bytes_(bytes), touched_(values), mistakes_(&mistakes) {}

  // When a thread touches a value: the barriers of its block and the meetings of its warp that it
  // has passed.
  struct Moment {
    std::uint32_t thread = 0;
    std::uint64_t barriers = 0;
    std::uint64_t meetings = 0;
  };

  const void* load(std::uint32_t i, const Moment& now);
  void store(std::uint32_t i, const void* value, const Moment& now);

 private:
  struct Touched {
    std::vector<Moment> reads;  // since the last write
    bool is_written = false;
    Moment write;
  };
  void check(const Moment& before, const char* before_did, const Moment& now, const char* now_does,
             std::uint32_t i);

  std::vector<std::byte> memory_;
  std::size_t bytes_;
  std::vector<Touched> touched_;
  Mistakes* mistakes_;
};

// One block: its threads and its shared memory.
class HostBlock;

template <typename T>
class HostShared {
 public:
  HostShared(HostBlock& block, std::uint32_t thread, SharedRecord& record)
      : block_(&block), thread_(thread), record_(&record) {}
  T load(std::uint32_t i) const;
  void store(std::uint32_t i, T value) const;

 private:
  HostBlock* block_;
  std::uint32_t thread_;
  SharedRecord* record_;
};

// The execution of one thread; the interface of measure/cuda/kernels/execution.h.
class HostExecution {
 public:
  HostExecution(HostBlock& block, std::uint32_t thread) : block_(&block), thread_(thread) {}

  std::uint32_t thread() const { return thread_; }
  std::uint64_t block() const;
  std::uint32_t block_threads() const;

  template <typename T>
  T down(T value, std::uint32_t distance) const {
    const std::uint32_t lane = thread_ % kHostWarp;
    return exchange(value, lane + distance < kHostWarp ? lane + distance : lane);
  }
  template <typename T>
  T from(T value, std::uint32_t lane) const {
    return exchange(value, lane % kHostWarp);
  }
  std::uint32_t ballot(bool condition) const;
  void sync() const;

  template <typename T, std::uint32_t kCount>
  HostShared<T> shared() const;

 private:
  template <typename T>
  T exchange(T value, std::uint32_t lane) const;

  HostBlock* block_;
  std::uint32_t thread_;
};

using HostKernel = std::function<void(HostExecution&)>;

class HostBlock {
 public:
  HostBlock(std::uint64_t index, std::uint32_t threads, Fibers& fibers, Mistakes& mistakes)
      : index_(index), threads_(threads), state_(threads), fibers_(&fibers), mistakes_(&mistakes) {}

  void run(const HostKernel& kernel);

  std::uint64_t index() const { return index_; }
  std::uint32_t threads() const { return threads_; }
  SharedRecord::Moment now(std::uint32_t thread) const {
    return {thread, state_[thread].barriers, state_[thread].meetings};
  }
  // Deposits a value of 4 or 8 bytes, waits for the warp, and returns the value of another lane.
  std::uint64_t exchange(std::uint32_t thread, std::uint64_t bits, std::uint32_t lane);
  // The same with a condition; returns those of all lanes.
  std::uint32_t ballot(std::uint32_t thread, bool condition);
  void wait_for_block(std::uint32_t thread);
  SharedRecord& shared(const void* type, std::size_t values, std::size_t bytes);

 private:
  enum class Waits { kNot, kForWarp, kForBlock, kEnded };
  struct Thread {
    Waits waits = Waits::kNot;
    std::uint64_t barriers = 0;
    std::uint64_t meetings = 0;
    std::array<std::uint64_t, 2> deposit{};  // of even and odd meetings
  };
  bool release(std::uint32_t first, std::uint32_t end, Waits what);
  bool release_all();

  std::uint64_t index_;
  std::uint32_t threads_;
  std::vector<Thread> state_;
  Fibers* fibers_;
  std::map<const void*, SharedRecord> shared_;
  Mistakes* mistakes_;
};

// Runs `kernel` for all threads of all blocks and returns what is wrong with it. A multiple of 32
// threads per block.
Mistakes run_grid(std::uint64_t blocks, std::uint32_t threads, const HostKernel& kernel);

template <typename T>
T HostShared<T>::load(std::uint32_t i) const {
  T value;
  std::memcpy(static_cast<void*>(&value), record_->load(i, block_->now(thread_)), sizeof value);
  return value;
}

template <typename T>
void HostShared<T>::store(std::uint32_t i, T value) const {
  record_->store(i, &value, block_->now(thread_));
}

template <typename T>
T HostExecution::exchange(T value, std::uint32_t lane) const {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = block_->exchange(thread_, bits, lane);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <typename T, std::uint32_t kCount>
HostShared<T> HostExecution::shared() const {
  static const char type{};  // its address tells types and counts apart
  return HostShared<T>(*block_, thread_, block_->shared(&type, kCount, sizeof(T)));
}

}  // namespace ttrace::test
