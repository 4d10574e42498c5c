#include "measure/cuda/host_execution.h"

#include <utility>

#include "base/text.h"

namespace ttrace::test {

using base::concat;

namespace {

constexpr std::size_t kMostMistakes = 1000;

void note(Mistakes& mistakes, std::string mistake) {
  if (mistakes.size() < kMostMistakes) mistakes.push_back(std::move(mistake));
}

}  // namespace

void SharedRecord::check(const Moment& before, const char* before_did, const Moment& now,
                         const char* now_does, std::uint32_t i) {
  if (before.thread == now.thread || before.barriers != now.barriers) return;
  const bool same_warp = before.thread / kHostWarp == now.thread / kHostWarp;
  if (same_warp && before.meetings != now.meetings) return;
  note(*mistakes_,
       concat("race on shared value ", i, ": thread ", before.thread, " ", before_did,
              " it and thread ", now.thread, " ", now_does, " it with no barrier in between"));
}

const void* SharedRecord::load(std::uint32_t i, const Moment& now) {
  if (i >= touched_.size()) {
    note(*mistakes_, concat("read of shared value ", i, " of ", touched_.size()));
    return memory_.data();
  }
  Touched& touched = touched_[i];
  if (touched.is_written) {
    check(touched.write, "wrote", now, "reads", i);
  } else {
    note(*mistakes_, concat("read of shared value ", i, ", which no thread has written"));
  }
  touched.reads.push_back(now);
  return memory_.data() + i * bytes_;
}

void SharedRecord::store(std::uint32_t i, const void* value, const Moment& now) {
  if (i >= touched_.size()) {
    return note(*mistakes_, concat("write of shared value ", i, " of ", touched_.size()));
  }
  Touched& touched = touched_[i];
  if (touched.is_written) check(touched.write, "wrote", now, "writes", i);
  for (const Moment& read : touched.reads) check(read, "read", now, "writes", i);
  touched.reads.clear();
  touched.is_written = true;
  touched.write = now;
  std::memcpy(memory_.data() + i * bytes_, value, bytes_);
}

std::uint64_t HostExecution::block() const { return block_->index(); }
std::uint32_t HostExecution::block_threads() const { return block_->threads(); }
std::uint32_t HostExecution::ballot(bool condition) const {
  return block_->ballot(thread_, condition);
}
void HostExecution::sync() const { block_->wait_for_block(thread_); }

std::uint64_t HostBlock::exchange(std::uint32_t thread, std::uint64_t bits, std::uint32_t lane) {
  Thread& mine = state_[thread];
  const std::size_t parity = mine.meetings % 2;
  mine.deposit[parity] = bits;
  mine.waits = Waits::kForWarp;
  fibers_->yield();
  return state_[thread / kHostWarp * kHostWarp + lane].deposit[parity];
}

std::uint32_t HostBlock::ballot(std::uint32_t thread, bool condition) {
  const std::size_t parity = state_[thread].meetings % 2;
  exchange(thread, condition ? 1 : 0, 0);
  std::uint32_t lanes = 0;
  for (std::uint32_t lane = 0; lane < kHostWarp; ++lane) {
    const Thread& other = state_[thread / kHostWarp * kHostWarp + lane];
    lanes |= static_cast<std::uint32_t>(other.deposit[parity]) << lane;
  }
  return lanes;
}

void HostBlock::wait_for_block(std::uint32_t thread) {
  state_[thread].waits = Waits::kForBlock;
  fibers_->yield();
}

SharedRecord& HostBlock::shared(const void* type, std::size_t values, std::size_t bytes) {
  return shared_.try_emplace(type, values, bytes, *mistakes_).first->second;
}

// Lets threads [first, end) go on if all of them wait for `what`.
bool HostBlock::release(std::uint32_t first, std::uint32_t end, Waits what) {
  for (std::uint32_t t = first; t < end; ++t) {
    if (state_[t].waits != what) return false;
  }
  for (std::uint32_t t = first; t < end; ++t) {
    state_[t].waits = Waits::kNot;
    ++(what == Waits::kForWarp ? state_[t].meetings : state_[t].barriers);
  }
  return true;
}

bool HostBlock::release_all() {
  bool released = false;
  for (std::uint32_t t = 0; t < threads_; t += kHostWarp) {
    released = release(t, t + kHostWarp, Waits::kForWarp) || released;
  }
  return release(0, threads_, Waits::kForBlock) || released;
}

void HostBlock::run(const HostKernel& kernel) {
  fibers_->start(threads_, [&](std::size_t t) {
    HostExecution execution(*this, static_cast<std::uint32_t>(t));
    kernel(execution);
    state_[t].waits = Waits::kEnded;
  });
  while (true) {
    for (std::uint32_t t = 0; t < threads_; ++t) {
      if (state_[t].waits == Waits::kNot) fibers_->run(t);
    }
    if (release_all()) continue;
    for (std::uint32_t t = 0; t < threads_; ++t) {
      if (state_[t].waits == Waits::kEnded) continue;
      note(*mistakes_, concat("thread ", t, " of block ", index_, " waits for its ",
                              state_[t].waits == Waits::kForWarp ? "warp" : "block",
                              ", of which others wait elsewhere or have ended"));
      break;
    }
    return;
  }
}

Mistakes run_grid(std::uint64_t blocks, std::uint32_t threads, const HostKernel& kernel) {
  Mistakes mistakes;
  Fibers fibers;
  for (std::uint64_t b = 0; b < blocks && mistakes.empty(); ++b) {
    HostBlock(b, threads, fibers, mistakes).run(kernel);
  }
  return mistakes;
}

}  // namespace ttrace::test
