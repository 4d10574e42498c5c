// A reference tensor, a candidate of it and what measuring and judging them gives.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "judge/fallback_rule.h"
#include "localize/causes/cause.h"
#include "measure/cpu/cpu_backend.h"
#include "support/memory_trace.h"

namespace ttrace::localize::test {

using namespace ttrace::test;  // `test::` in this room means both

inline std::vector<double> random_values(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<double> values(count);
  // Whole 2^-20ths: exact in float32, and so are their sums.
  for (double& value : values)
    value = (static_cast<double>(random() % 2097152) - 1048576) * 0x1p-20;
  return values;
}

inline std::vector<double> times(double factor, std::vector<double> values) {
  for (double& value : values) value *= factor;
  return values;
}

inline std::vector<double> minus(std::vector<double> values, const std::vector<double>& others) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] -= others[i];
  return values;
}

// One tensor "w" of `shape`, float32, in both traces; the candidate's is whole on every rank.
class Scene {
 public:
  Scene(trace::Mesh mesh, const std::vector<double>& reference,
        tensor::DType dtype = tensor::DType::kFloat32)
      : candidate_(std::move(mesh), "candidate"),
        entry_(make_entry("w", {reference.size()}, trace::Kind::kMainGrad, dtype)) {
    reference_.put(entry_, reference);
    candidate_.put(entry_, reference);
  }

  void hold(std::uint64_t rank, const std::vector<double>& values) {
    candidate_.put_shard(entry_, rank, values);
  }
  void hold_everywhere(const std::vector<double>& values) {
    candidate_.edit().tensors.clear();
    candidate_.put(entry_, values);
  }

  Case the_case() {
    Case made;
    made.backend = &measure::cpu_backend();
    made.reference = {&reference_, &reference_.manifest().tensors[0]};
    made.candidate = {&candidate_, &candidate_.manifest().tensors[0]};
    measurement_ = measure::measure(measure::cpu_backend(), made.reference, made.candidate, {});
    made.measurement = &measurement_;
    made.tolerance =
        judge::fallback_tolerance(measure::reference_norm(measurement_.total),
                                  tensor::epsilon(entry_.dtype), measurement_.total.finite, 0, 0);
    return made;
  }

 private:
  MemoryTrace reference_;
  MemoryTrace candidate_;
  trace::TensorEntry entry_;
  measure::Measurement measurement_;
};

}  // namespace ttrace::localize::test
