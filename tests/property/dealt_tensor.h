// A random tensor whose elements were dealt out to the ranks of a trace in memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "property/random_layout.h"
#include "support/memory_trace.h"

namespace ttrace::test {

using Doubles = std::vector<double>;

struct DealtTensor {
  RandomTensor tensor;
  NaiveDeal deal;
  Doubles expected;  // the logical values
  bool partial = false;
};

// Small whole numbers: their sums are exact in any order.
inline Doubles whole_numbers(Random& random, std::size_t count) {
  Doubles values(count);
  for (double& value : values) value = static_cast<double>(random.between(0, 2000)) - 1000;
  return values;
}

// Puts the index where there is one; `numbers` as they are now.
inline void put_index(MemoryTrace& trace, const RandomTensor& tensor) {
  if (!tensor.index) return;
  const NaiveRows rows = tensor.rows(trace.manifest().meshes.at(""));
  for (const NaiveHolder& holder :
       deal_naively(*tensor.index, trace.manifest().meshes.at("")).holders) {
    const auto& numbers = rows[holder.linear];
    trace.put_bits(tensor.index->key, holder.rank, tensor.index->dtype, {numbers.size()},
                   encode(tensor.index->dtype, Doubles(numbers.begin(), numbers.end())));
  }
  trace.edit().tensors.push_back(*tensor.index);
}

inline double combined(const trace::TensorEntry& entry, const trace::Mesh& mesh,
                       const Doubles& terms) {
  bool maximum = false;
  double divisor = 1;
  for (const trace::MeshAxis& axis : mesh.axes) {
    const auto placed = entry.placements.find(axis.name);
    if (placed == entry.placements.end()) continue;
    const auto* partial = std::get_if<trace::Partial>(&placed->second);
    if (partial == nullptr) continue;
    maximum = maximum || partial->reduction == trace::Reduction::kMax;
    if (partial->reduction == trace::Reduction::kMean) {
      divisor *= static_cast<double>(held_of(entry, axis).size());
    }
  }
  double value = terms[0];
  for (std::size_t t = 1; t < terms.size(); ++t) {
    value = maximum ? std::max(value, terms[t]) : value + terms[t];
  }
  return value * entry.scale / divisor;
}

// Adds the tensor to `trace`: every rank's dataset, padding filled with whatever, some of the empty
// ones left out.
inline DealtTensor deal_into(MemoryTrace& trace, Random& random, RandomTensor tensor) {
  const trace::Mesh& mesh = trace.manifest().meshes.at("");
  DealtTensor dealt{std::move(tensor), {}, {}, false};
  const trace::TensorEntry& entry = dealt.tensor.entry;
  put_index(trace, dealt.tensor);
  dealt.deal = dealt.tensor.deal(mesh);
  for (const auto& [axis, placement] : entry.placements) {
    dealt.partial = dealt.partial || std::holds_alternative<trace::Partial>(placement);
  }
  const std::uint64_t count = dealt.tensor.elements();
  std::vector<Doubles> terms;
  for (std::uint64_t t = 0; t < dealt.deal.terms; ++t) {
    terms.push_back(whole_numbers(random, count));
  }
  for (const NaiveHolder& holder : dealt.deal.holders) {
    if (holder.dataset.elements.empty() && random.chance(0.5)) continue;
    Doubles values;
    for (const std::int64_t element : holder.dataset.elements) {
      values.push_back(element < 0 ? static_cast<double>(random.between(0, 99))
                                   : terms[holder.term][static_cast<std::size_t>(element)]);
    }
    trace.put_bits(entry.key, holder.rank, entry.dtype, holder.dataset.shape,
                   encode(entry.dtype, values));
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    Doubles of_terms;
    for (const Doubles& term : terms) of_terms.push_back(term[i]);
    dealt.expected.push_back(combined(entry, mesh, of_terms));
  }
  trace.edit().tensors.push_back(entry);
  return dealt;
}

inline bool close(const Doubles& a, const Doubles& b) {
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= 1e-14 * std::abs(b[i]))) return false;
  }
  return a.size() == b.size();
}

// The values of `box` of a tensor of `shape`.
inline Doubles values_in(const tensor::Box& box, const tensor::Shape& shape,
                         const Doubles& values) {
  Doubles inside;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint64_t rest = i;
    bool is_inside = true;
    for (std::size_t d = shape.size(); d-- > 0;) {
      const std::uint64_t at = rest % shape[d];
      rest /= shape[d];
      is_inside = is_inside && at >= box.origin[d] && at < box.origin[d] + box.extent[d];
    }
    if (is_inside) inside.push_back(values[i]);
  }
  return inside;
}

}  // namespace ttrace::test
