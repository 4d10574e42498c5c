// Tensors with a row for every token, for tests.
#pragma once

#include <vector>

#include "routing/choices.h"
#include "support/memory_trace.h"

namespace ttrace::test {

using Table = std::vector<std::vector<double>>;

// A table in a trace of its own.
struct Held {
  explicit Held(const Table& rows, tensor::DType dtype = tensor::DType::kFloat64)
      : entry(ttrace::test::make_entry("t", {rows.size(), rows.at(0).size()}, trace::Kind::kOutput,
                                       dtype)) {
    std::vector<double> values;
    for (const auto& row : rows) values.insert(values.end(), row.begin(), row.end());
    source.put(entry, values);
  }
  measure::TensorRef ref() const { return {&source, &entry}; }

  ttrace::test::MemoryTrace source;
  trace::TensorEntry entry;
};

}  // namespace ttrace::test
