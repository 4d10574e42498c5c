#include "audit/renamed.h"

#include "base/error.h"
#include "specification/compare_specifications.h"
#include "specification/specifications.h"
#include "support/catch.h"

namespace ttrace::audit::renamed_test {
namespace {

specification::Specification model(const std::string& name, const std::string& operation) {
  return test::specification_of(
      R"({"inputs": 1, "nodes": [[")" + operation + R"(", [0, 0], {}, "float32", [2]]]})",
      R"({"kind": "input", "name": ")" + name + R"(", "dtype": "float32", "shape": [2]},
         {"kind": "output", "name": ")" +
          name + R"(", "dtype": "float32", "shape": [2], "pattern": 0, "from": [0]})");
}

std::vector<layout::MapRule> rules_of(const std::string& rule) {
  return layout::parse_map_rules(R"({"schema": "ttrace.map/2", "candidate": [)" + rule + "]}",
                                 "map.json")
      .candidate;
}

TEST_CASE("specifications of other names are compared under those that the map gives") {
  const auto rules = rules_of(R"({"from": "blocks.{i}", "to": "layers.{i}"})");
  const auto differences = [&](const std::string& operation) {
    const RenamedSpecification other = renamed(model("blocks.0", operation), "b.json", rules);
    CHECK(other.left == 0);
    return specification::compare_specifications(model("layers.0", "add"), "a.json",
                                                 other.specification, "b.json")
        .differences.size();
  };
  CHECK(differences("add") == 0);
  CHECK(differences("multiply") == 1);
  CHECK_THROWS_AS(specification::compare_specifications(model("layers.0", "add"), "a.json",
                                                        model("blocks.0", "add"), "b.json"),
                  base::InputError);
}

TEST_CASE("what a map does more to than rename keeps its name, and is counted") {
  const auto rules = rules_of(R"({"from": "m", "to": "n", "transpose": [1, 0]})");
  const RenamedSpecification same = renamed(model("m", "add"), "b.json", rules);
  CHECK(same.left == 2);
  CHECK(same.specification.tensors[0].name == "m");
}

}  // namespace
}  // namespace ttrace::audit::renamed_test
