// Threads of one program that run in turns, each on a stack of its own.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace ttrace::test {

class Fibers {
 public:
  Fibers() = default;
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;
  ~Fibers();

  // Starts `count` fibers, none of which runs yet. Stacks are used again.
  void start(std::size_t count, std::function<void(std::size_t)> work);
  // Runs fiber `i` until it calls yield() or ends. Returns whether it has ended.
  bool run(std::size_t i);
  // Called by the fiber that runs: gives back to run().
  void yield();

 private:
  struct Fiber {
    std::unique_ptr<std::byte[]> stack;
    ucontext_t context{};
    jmp_buf place{};  // where it has yielded
    bool entered = false;
    bool ended = false;
    void* shadow = nullptr;  // what a sanitizer knows of the stack
  };
  static void enter(unsigned high, unsigned low);
  void switch_to_fiber(Fiber& fiber);
  void switch_to_caller(Fiber& fiber, bool ends);

  std::vector<Fiber> fibers_;
  std::function<void(std::size_t)> work_;
  std::size_t running_ = 0;
  ucontext_t caller_{};
  jmp_buf caller_place_{};
  // Used in builds with AddressSanitizer, which needs them to follow a change of stacks.
  [[maybe_unused]] const void* caller_stack_ = nullptr;
  [[maybe_unused]] std::size_t caller_stack_bytes_ = 0;
  [[maybe_unused]] void* caller_shadow_ = nullptr;
};

}  // namespace ttrace::test
