#include "audit/run_variants.h"

#include <string>

#include "base/error.h"
#include "base/text.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::audit::run_variants_test {
namespace {

using base::concat;
using Catch::Matchers::Contains;

std::string tensor(const std::string& name, const std::string& shape, const std::string& more) {
  return concat(R"({"kind": "output", "name": ")", name, R"(", "dtype": "float32", "shape": )",
                shape, more, "}");
}

// y is twice x; both are of that shape.
std::string part(const std::string& shape, const std::string& further = "") {
  return concat(R"("patterns": [{"inputs": 1, "nodes": [["add", [0, 0], {}, "float32", )", shape,
                R"(]]}], "tensors": [)", tensor("x", shape, ""), ",",
                tensor("y", shape, R"(, "pattern": 0, "from": [0])"), further, "]");
}

specification::Specification specification_of(const std::string& variants) {
  return specification::parse_specification(
      concat(R"({"schema": "ttrace.specification/1", "patterns": [], "tensors": [)",
             tensor("x", "[-1]", ""), ",",
             tensor("y", "[-1]", R"(, "opaque": "sizes that depend on data", "from": [0])"),
             R"(], "variants": [)", variants, "]}"),
      "s.json");
}

void add(trace::Manifest& manifest, const std::string& name, std::uint64_t microbatch,
         const tensor::Shape& shape) {
  manifest.tensors.push_back(test::make_entry(name, shape, trace::Kind::kOutput));
  manifest.tensors.back().key.microbatch = microbatch;
}

TEST_CASE("a micro-batch has the variant of all its shapes, the largest one first") {
  const specification::Specification specification =
      specification_of(concat("{", part("[2]"), "}, {", part("[3]"), "}, {",
                              part("[3]", concat(",", tensor("z", "[1]", ""))), "}"));
  trace::Manifest manifest;
  add(manifest, "x", 0, {3});
  add(manifest, "x", 1, {2});
  add(manifest, "y", 1, {2});
  add(manifest, "x", 2, {2});
  add(manifest, "y", 2, {3});
  add(manifest, "x", 3, {4});
  add(manifest, "other", 4, {3});
  const RunVariants variants(specification, manifest);
  const auto of = [&](std::optional<std::uint64_t> microbatch) {
    trace::TensorKey key = test::make_key("x", trace::Kind::kOutput);
    key.step = manifest.tensors.front().key.step;
    key.microbatch = microbatch;
    return &variants.of(key);
  };
  CHECK(of(0) == &specification.variants[2]);
  CHECK(of(1) == &specification.variants[0]);
  // Shapes of two variants, of none, and no tensor of any.
  CHECK(of(2) == &specification);
  CHECK(of(3) == &specification);
  CHECK(of(4) == &specification);
  CHECK(of(std::nullopt) == &specification);
}

TEST_CASE("a variant of one micro-batch is no other one's") {
  const specification::Specification specification =
      specification_of(concat(R"({"microbatch": 1, )", part("[2]"), R"(}, {"microbatch": 0, )",
                              part("[2]"), R"(}, {"microbatch": 2, )", part("[3]"), "}"));
  trace::Manifest manifest;
  for (std::uint64_t microbatch = 0; microbatch < 4; ++microbatch) {
    add(manifest, "x", microbatch, {2});
  }
  const RunVariants variants(specification, manifest);
  const auto of = [&](std::uint64_t microbatch) {
    return &variants.of(manifest.tensors[microbatch].key);
  };
  CHECK(of(0) == &specification.variants[1]);
  CHECK(of(1) == &specification.variants[0]);
  // Its own has other sizes; there is none.
  CHECK(of(2) == &specification);
  CHECK(of(3) == &specification);
}

TEST_CASE("a variant is refused as the document is, and so are too many") {
  const auto refusal = [](const std::string& variants) {
    try {
      specification_of(variants);
      return std::string("not refused");
    } catch (const base::InputError& error) {
      return std::string(error.what());
    }
  };
  const std::string sound = concat("{", part("[2]"), "}");
  CHECK_THAT(refusal(concat(sound, R"(, {"patterns": [], "tensors": [], "opaque": {}})")),
             Contains("s.json: /variants/1") && Contains("opaque"));
  CHECK_THAT(refusal(R"({"patterns": []})"),
             Contains("s.json: /variants/0") && Contains("tensors"));
  CHECK_THAT(refusal(concat("{", part("[2]", concat(",", tensor("x", "[2]", ""))), "}")),
             Contains("s.json: /variants/0/tensors/2") && Contains("the same kind, name"));
  CHECK_THAT(
      refusal(concat("{", part("[2]", concat(",", tensor("z", "[3]", R"(, "same": 0)"))), "}")),
      Contains("s.json: /variants/0/tensors/2: the shape is [3]"));
  std::string many = sound;
  for (int i = 0; i < 64; ++i) many += concat(",", sound);
  CHECK_THAT(refusal(many), Contains("s.json: /variants: more than 64 variants"));
}

}  // namespace
}  // namespace ttrace::audit::run_variants_test
