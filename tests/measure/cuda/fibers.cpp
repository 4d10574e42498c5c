// glibc's check of jumps takes one to another stack for an error.
#undef _FORTIFY_SOURCE
#include "measure/cuda/fibers.h"

#include <cstdint>
#include <utility>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#define TTRACE_ASAN
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#define TTRACE_TSAN
#endif
#ifdef __has_feature  // clang
#if __has_feature(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define TTRACE_ASAN
#endif
#if __has_feature(thread_sanitizer)
#include <sanitizer/tsan_interface.h>
#define TTRACE_TSAN
#endif
#endif

#if defined(TTRACE_ASAN) || defined(TTRACE_TSAN)
#define TTRACE_FOLLOWED  // a sanitizer follows the changes of stacks
#endif

namespace ttrace::test {
namespace {

constexpr std::size_t kStackBytes = std::size_t{128} << 10;

}  // namespace

void Fibers::start(std::size_t count, std::function<void(std::size_t)> work) {
  work_ = std::move(work);
  if (fibers_.size() < count) fibers_.resize(count);
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  for (std::size_t i = 0; i < count; ++i) {
    Fiber& fiber = fibers_[i];
    if (!fiber.stack) {
      fiber.stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
#ifdef TTRACE_TSAN
      fiber.shadow = __tsan_create_fiber(0);
#endif
    }
#ifndef TTRACE_FOLLOWED
    if (fiber.ended) {  // it waits for its next work
      fiber.ended = false;
      continue;
    }
    fiber.entered = false;
#endif
    fiber.ended = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, reinterpret_cast<void (*)()>(&Fibers::enter), 2,
                static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
  }
}

Fibers::~Fibers() {
#ifdef TTRACE_TSAN
  for (const Fiber& fiber : fibers_) __tsan_destroy_fiber(fiber.shadow);
#endif
}

void Fibers::enter(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<Fibers*>(static_cast<std::uintptr_t>(high) << 32 | low);
#ifdef TTRACE_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &self->caller_stack_, &self->caller_stack_bytes_);
#endif
  for (;;) {
    self->work_(self->running_);
    Fiber& fiber = self->fibers_[self->running_];
    fiber.ended = true;
    self->switch_to_caller(fiber, true);
  }
}

#ifdef TTRACE_FOLLOWED

void Fibers::switch_to_fiber(Fiber& fiber) {
#ifdef TTRACE_ASAN
  void* shadow = nullptr;
  __sanitizer_start_switch_fiber(&shadow, fiber.stack.get(), kStackBytes);
#endif
#ifdef TTRACE_TSAN
  caller_shadow_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(fiber.shadow, 0);
#endif
  swapcontext(&caller_, &fiber.context);
#ifdef TTRACE_ASAN
  __sanitizer_finish_switch_fiber(shadow, nullptr, nullptr);
#endif
}

void Fibers::switch_to_caller(Fiber& fiber, [[maybe_unused]] bool ends) {
#ifdef TTRACE_ASAN
  __sanitizer_start_switch_fiber(ends ? nullptr : &fiber.shadow, caller_stack_,
                                 caller_stack_bytes_);
#endif
#ifdef TTRACE_TSAN
  __tsan_switch_to_fiber(caller_shadow_, 0);
#endif
  swapcontext(&fiber.context, &caller_);
#ifdef TTRACE_ASAN
  __sanitizer_finish_switch_fiber(fiber.shadow, &caller_stack_, &caller_stack_bytes_);
#endif
}

#else

// swapcontext asks the kernel for the mask of signals at every switch, which takes much longer than
// the switch.
void Fibers::switch_to_fiber(Fiber& fiber) {
  if (_setjmp(caller_place_) != 0) return;
  if (fiber.entered) _longjmp(fiber.place, 1);
  fiber.entered = true;
  setcontext(&fiber.context);
}

void Fibers::switch_to_caller(Fiber& fiber, bool) {
  if (_setjmp(fiber.place) == 0) _longjmp(caller_place_, 1);
}

#endif

bool Fibers::run(std::size_t i) {
  running_ = i;
  switch_to_fiber(fibers_[i]);
  return fibers_[i].ended;
}

void Fibers::yield() { switch_to_caller(fibers_[running_], false); }

}  // namespace ttrace::test
