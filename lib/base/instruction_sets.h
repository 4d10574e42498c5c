// Which vector instructions this machine and its operating system offer, and which of them all
// kernels use. Asks the processor itself: __builtin_cpu_supports depends on the compiler, and zig's
// answers no to everything, while clang 16's does not know F16C.
#pragma once

#include <string_view>
#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace ttrace::base {

struct InstructionSets {
  bool v3 = false;  // AVX2, BMI, BMI2, F16C and FMA: x86-64-v3, as far as kernels need it
  bool v4 = false;  // the same with AVX-512 F, BW, CD, DQ and VL: x86-64-v4
};

inline InstructionSets detect_instruction_sets() {
  InstructionSets found;
#ifdef __x86_64__
  unsigned int eax = 0;
  unsigned int ebx = 0;
  unsigned int ecx = 0;
  unsigned int edx = 0;
  constexpr unsigned int kAvx = bit_OSXSAVE | bit_AVX;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & kAvx) != kAvx) return found;
  const bool f16c_and_fma = (ecx & bit_F16C) != 0 && (ecx & bit_FMA) != 0;
  // The registers that the operating system keeps for each thread (XCR0).
  unsigned int kept = 0;
  unsigned int upper = 0;
  __asm__("xgetbv" : "=a"(kept), "=d"(upper) : "c"(0));
  constexpr unsigned int kYmm = 0x06;  // XMM and the upper halves of YMM
  constexpr unsigned int kZmm = 0xe6;  // and masks, the upper halves of ZMM, ZMM 16 to 31
  if ((kept & kYmm) != kYmm || __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return found;
  const auto all = [&](unsigned int bits) { return (ebx & bits) == bits; };
  found.v3 = f16c_and_fma && all(bit_AVX2 | bit_BMI | bit_BMI2);
  found.v4 = found.v3 && (kept & kZmm) == kZmm &&
             all(bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL);
#endif
  return found;
}

// Found once.
inline const InstructionSets& machine_instruction_sets() {
  static const InstructionSets found = detect_instruction_sets();
  return found;
}

// The sets that kernels use: all of the machine, unless limit_instruction_sets() was called.
inline InstructionSets& instruction_sets() {
  static InstructionSets used = machine_instruction_sets();
  return used;
}

// Call it before any work: a kernel keeps the set that it found at its first use.
inline void limit_instruction_sets(std::string_view isa) {
  const InstructionSets& machine = machine_instruction_sets();
  instruction_sets().v4 = machine.v4 && isa == "x86-64-v4";
  instruction_sets().v3 = machine.v3 && (isa == "x86-64-v3" || isa == "x86-64-v4");
}

}  // namespace ttrace::base
