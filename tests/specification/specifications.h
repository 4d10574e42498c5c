// Specifications of a few lines, and values, for tests.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/text.h"
#include "specification/evaluate/evaluate.h"
#include "specification/specification.h"

namespace ttrace::test {

inline specification::Specification specification_of(const std::string& patterns,
                                                     const std::string& tensors) {
  return specification::parse_specification(
      base::concat(R"({"schema": "ttrace.specification/1", "patterns": [)", patterns,
                   R"(], "tensors": [)", tensors, "]}"),
      "s.json");
}

// A specification whose last tensor follows from those before it by the nodes.
inline specification::Specification one_pattern(const std::vector<std::string>& inputs,
                                                const std::string& nodes, const std::string& dtype,
                                                const std::string& shape) {
  std::string tensors;
  std::string from;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    tensors += base::concat(R"({"kind": "input", "name": "m[)", i, R"(]", )", inputs[i], "},\n");
    from += base::concat(i > 0 ? ", " : "", i);
  }
  tensors += base::concat(R"({"kind": "output", "name": "m", "dtype": ")", dtype, R"(", "shape": )",
                          shape, R"(, "pattern": 0, "from": [)", from, "]}");
  return specification_of(
      base::concat(R"({"inputs": )", inputs.size(), R"(, "nodes": [)", nodes, "]}"), tensors);
}

inline specification::Expression last_expression(
    const specification::Specification& specification) {
  const std::size_t last = specification.tensors.size() - 1;
  return std::get<specification::Expression>(
      specification::expression_of(specification, last, [](std::size_t) { return true; }));
}

inline measure::ExecutionContext on_threads(unsigned threads) {
  measure::ExecutionContext context;
  context.threads = threads;
  return context;
}

}  // namespace ttrace::test
