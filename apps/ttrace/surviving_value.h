// A value that outlives a crash: the processes that `supervised` starts one after the other share
// it.
#pragma once

#include <sys/mman.h>

#include <new>
#include <type_traits>

namespace ttrace::app {

template <typename Value>
class SurvivingValue {
  static_assert(std::is_trivially_copyable_v<Value>);

 public:
  SurvivingValue()
      : memory_(::mmap(nullptr, sizeof(Value), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                       -1, 0)) {
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    new (memory_) Value{};
  }
  ~SurvivingValue() { ::munmap(memory_, sizeof(Value)); }
  SurvivingValue(const SurvivingValue&) = delete;
  SurvivingValue& operator=(const SurvivingValue&) = delete;

  Value& operator*() const { return *static_cast<Value*>(memory_); }
  Value* operator->() const { return static_cast<Value*>(memory_); }

 private:
  void* memory_;
};

}  // namespace ttrace::app
