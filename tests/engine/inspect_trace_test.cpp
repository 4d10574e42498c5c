#include "engine/inspect_trace.h"

#include <cmath>
#include <sstream>

#include "base/error.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::engine::inspect_trace_test {
namespace {

using test::make_entry;
using test::make_mesh;
using test::MemoryTrace;

std::string inspected(const MemoryTrace& trace, const comparison::Selection& selection = {},
                      bool values = false) {
  std::ostringstream out;
  inspect_trace(trace, selection, values, out);
  return out.str();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

MemoryTrace sample() {
  MemoryTrace trace(make_mesh({{"pp", 1}, {"tp", 2}}), "run");
  trace::TensorEntry weight = make_entry("fc.weight", {3, 2}, trace::Kind::kMainGrad);
  weight.placements["tp"] = trace::Shard{0, std::nullopt};
  weight.scale = 0.5;
  weight.computed_in = tensor::DType::kBFloat16;
  weight.order = 9;
  trace.put(weight, {1, -2, 3, -4, 5, -6});
  trace::TensorEntry output = make_entry("fc", {2});
  output.order = 1;
  trace.put(output, {3, 4});
  return trace;
}

TEST_CASE("the summary says what the run is") {
  MemoryTrace trace = sample();
  trace.edit().run.model = "tiny";
  trace.edit().run.noise = trace::NoiseFacts{5, 1e-7, "embed"};
  const std::string text = inspected(trace);
  CHECK(text.find("run: 2 tensors, 2 ranks, 1 step\n") == 0);
  CHECK(contains(text, "mesh (pp 1 × tp 2)"));
  CHECK(contains(text, "model tiny"));
  CHECK(contains(text, "perturbed at embed by 1e-7 (seed 5)"));
  CHECK(contains(text, "kinds output 1 main_grad 1"));
  CHECK(contains(text, "data flow none"));
}

TEST_CASE("tensors are listed in execution order with type and layout") {
  const std::string text = inspected(sample());
  const auto output = text.find("fc · output · step 0  f32  2 × [2] -> [2], replicas over tp");
  const auto weight = text.find(
      "fc.weight · main_grad · step 0  f32  2 × [2, 2] down to [1, 2] -> [3, 2], dimension 0 cut "
      "over tp, computed in bf16, scale 0.5");
  REQUIRE(output != std::string::npos);
  REQUIRE(weight != std::string::npos);
  CHECK(output < weight);
  CHECK_FALSE(contains(text, "norm"));
}

TEST_CASE("with values the logical numbers are read, scale included") {
  const std::string text = inspected(sample(), {}, true);
  CHECK(contains(text, "norm 5, 3 … 4"));
  CHECK(contains(text, "norm 4.77, -3 … 2.5"));
}

TEST_CASE("non-finite values are counted, and a tensor of nothing else says so") {
  MemoryTrace trace;
  trace.put(make_entry("a", {3}), {1, std::nan(""), INFINITY});
  trace.put(make_entry("b", {2}), {std::nan(""), std::nan("")});
  const std::string text = inspected(trace, {}, true);
  CHECK(contains(text, "norm 1, 1 … 1, 2 not finite"));
  CHECK(contains(text, "no finite element, 2 not finite"));
}

TEST_CASE("a tensor that cannot be read says why in its line") {
  MemoryTrace trace = sample();
  trace.lose_rank(1);
  const std::string text = inspected(trace, {}, true);
  CHECK(contains(text, "memory: rank lost"));
  CHECK(contains(text, "norm 5"));
}

TEST_CASE("a pattern chooses tensors, one that matches nothing is refused") {
  const std::string text = inspected(sample(), {{"*.weight"}, {}, {}, {}});
  CHECK_FALSE(contains(text, "fc · output"));
  CHECK(contains(text, "fc.weight"));
  CHECK_THROWS_AS(inspected(sample(), {{"nobody"}, {}, {}, {}}), base::Error);
}

TEST_CASE("nothing in a trace moves the cursor") {
  MemoryTrace trace(make_mesh({{"t\x1b[2J", 2}}), "run\x07");
  trace.edit().run.model = "evil\x1b[31m";
  trace.put(make_entry("a\x1b]0;x", {1}), {1});
  const std::string text = inspected(trace, {}, true);
  CHECK_FALSE(contains(text, "\x1b"));
  CHECK_FALSE(contains(text, "\x07"));
}

}  // namespace
}  // namespace ttrace::engine::inspect_trace_test
