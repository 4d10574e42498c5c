// Compares a backend with the CPU, bit for bit, over every kind of request. Needs no test
// framework, so that the same cases run in the tests (kernels on the host) and on a GPU
// (scripts/gpu_check.sh).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "measure/backend.h"

namespace ttrace::test {

struct Conformance {
  std::uint64_t cases = 0;
  std::vector<std::string> failures;  // "pair of bf16, 4097 elements, ...: sum_d2 1 is not 2"
};

// One function per kind of request; random values follow from `seed`.
Conformance check_pairs(const measure::Backend& backend, std::uint64_t seed);
Conformance check_mixed_pairs(const measure::Backend& backend, std::uint64_t seed);
Conformance check_boxes(const measure::Backend& backend, std::uint64_t seed);
Conformance check_integers(const measure::Backend& backend, std::uint64_t seed);
Conformance check_noise(const measure::Backend& backend, std::uint64_t seed);
Conformance check_rows(const measure::Backend& backend, std::uint64_t seed);
Conformance check_replicas(const measure::Backend& backend, std::uint64_t seed);
Conformance check_updates(const measure::Backend& backend, std::uint64_t seed);
Conformance check_many_requests(const measure::Backend& backend, std::uint64_t seed);

struct ConformanceCheck {
  const char* name;
  Conformance (*run)(const measure::Backend& backend, std::uint64_t seed);
};

inline constexpr ConformanceCheck kConformanceChecks[]{{"pairs", check_pairs},
                                                       {"mixed pairs", check_mixed_pairs},
                                                       {"boxes and cells", check_boxes},
                                                       {"integers", check_integers},
                                                       {"noise", check_noise},
                                                       {"rows", check_rows},
                                                       {"replicas", check_replicas},
                                                       {"updates", check_updates},
                                                       {"many requests", check_many_requests}};

}  // namespace ttrace::test
