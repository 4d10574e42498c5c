// What torch gives for every primitive: tests/specification/primitive_cases.json.
#pragma once

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "specification/specifications.h"

namespace ttrace::test {

using nlohmann::json;

inline double number_of(const json& value) {
  if (value == "nan") return std::nan("");
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  return value.get<double>();
}

inline std::vector<double> numbers_of(const json& values) {
  std::vector<double> numbers;
  for (const json& value : values) numbers.push_back(number_of(value));
  return numbers;
}

inline tensor::Shape shape_of(const json& shape) { return shape.get<std::vector<std::uint64_t>>(); }

// A case is one node over inputs: the specification that holds it is read and evaluated.
inline specification::Specification specification_of_case(const json& test) {
  std::vector<std::string> inputs;
  for (const json& input : test["inputs"]) {
    inputs.push_back(base::concat(R"("dtype": )", input["dtype"].dump(), R"(, "shape": )",
                                  input["shape"].dump()));
  }
  return one_pattern(inputs, test["node"].dump(), test["node"][3], test["node"][4].dump());
}

inline std::vector<specification::Value> leaves_of(const json& test) {
  std::vector<specification::Value> leaves;
  for (const json& input : test["inputs"]) {
    leaves.push_back(
        specification::Value::of(shape_of(input["shape"]), numbers_of(input["values"])));
  }
  return leaves;
}

inline json all_cases() {
  std::ifstream file(std::string(TTRACE_SOURCE_DIR) + "/tests/specification/primitive_cases.json");
  return json::parse(file);
}

}  // namespace ttrace::test
