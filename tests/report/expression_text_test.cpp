#include "report/expression_text.h"

#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "specification/specifications.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::report::expression_text_test {
namespace {

using test::make_entry;
using test::MemoryTrace;
using trace::Kind;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// act = relu(fc), fc = x·Wᵀ, the loss is made by an operation without a formula.
specification::Specification two_modules() {
  specification::Specification specification = test::specification_of(
      R"({"inputs": 2, "nodes": [["permute", [1], {"dims": [1, 0]}, "float32", [4, 3]],
                                 ["matmul", [0, 2], {}, "float32", [2, 3]]]},
         {"inputs": 1, "nodes": [["relu", [0], {}, "float32", [2, 3]]]})",
      R"x({"kind": "param", "name": "fc.weight", "dtype": "float32", "shape": [3, 4]},
         {"kind": "input", "name": "(model)", "dtype": "float32", "shape": [2, 4]},
         {"kind": "input", "name": "fc", "dtype": "float32", "shape": [2, 4], "same": 1},
         {"kind": "output", "name": "fc", "dtype": "float32", "shape": [2, 3], "pattern": 0,
          "from": [2, 0], "module": {"class": "Linear", "called_at": "model.py:7"}},
         {"kind": "output", "name": "act", "dtype": "float32", "shape": [2, 3], "pattern": 1,
          "from": [3]},
         {"kind": "loss", "name": "loss", "dtype": "float32", "shape": [], "opaque": "aten.ctc",
          "from": [4]},
         {"kind": "param_grad", "name": "fc.weight", "dtype": "float32", "shape": [3, 4],
          "opaque": "aten.ctc", "from": [4]})x");
  specification.after_backward.has_main_grad = true;
  specification.after_backward.mean = true;
  specification.after_backward.factor = 0.5;
  return specification;
}

struct Named {
  Kind kind;
  std::string name;
  tensor::Shape shape;
};

MemoryTrace holding(const std::vector<Named>& tensors) {
  MemoryTrace trace(test::make_mesh({{"dp", 1}}), "run");
  for (const Named& tensor : tensors) {
    trace::TensorEntry entry = make_entry(tensor.name, tensor.shape, tensor.kind);
    const bool of_microbatch = is_module_value(tensor.kind) || tensor.kind == Kind::kParamGrad ||
                               tensor.kind == Kind::kLoss;
    if (of_microbatch) entry.key.microbatch = 0;
    trace.put(entry, std::vector<double>(*tensor::element_count(tensor.shape), 1));
  }
  return trace;
}

std::string inspected(const MemoryTrace& trace, Kind kind, const std::string& name) {
  comparison::Selection selection;
  selection.only = {name};
  selection.kinds = {kind};
  std::ostringstream out;
  inspect_expressions(trace, two_modules(), selection, out);
  return out.str();
}

const Named kWeight{Kind::kParam, "fc.weight", {3, 4}};
const Named kInput{Kind::kInput, "fc", {2, 4}};
const Named kFc{Kind::kOutput, "fc", {2, 3}};
const Named kAct{Kind::kOutput, "act", {2, 3}};

TEST_CASE("an expression numbers what it reads and what it computes") {
  const std::string text = inspected(holding({kWeight, kInput, kFc}), Kind::kOutput, "fc");
  CHECK(contains(text, "fc · output · step 0 · mb 0  f32  1 × [2, 3]"));
  CHECK(contains(text, "module       Linear, called in model.py:7\n"));
  CHECK(contains(text, "1  param of fc.weight  [3, 4] f32  recorded: 1 × [3, 4] -> [3, 4]\n"));
  CHECK(contains(text, "2  input of fc  [2, 4] f32         recorded: 1 × [2, 4] -> [2, 4]\n"));
  CHECK(contains(text, "3  permute(1), dims [1, 0]  [4, 3] f32\n"));
  CHECK(contains(text, "4  matmul(2, 3)             [2, 3] f32\n"));
  CHECK(contains(text, "judged       the trace holds everything that it reads\n"));
}

TEST_CASE("what the trace lacks is computed where that is possible") {
  const std::string text = inspected(holding({kWeight, kInput, kAct}), Kind::kOutput, "act");
  CHECK(contains(text, "lacks        output of fc  [2, 3] f32  not recorded: computed below\n"));
  CHECK(contains(text, "4  matmul(2, 3)"));
  CHECK(contains(text, "5  relu(4)"));
  CHECK(contains(text, "judged       the trace holds"));
}

TEST_CASE("what cannot be computed is not judged, and the settings that record it are named") {
  const std::string text = inspected(holding({kInput, kFc}), Kind::kOutput, "fc");
  CHECK(contains(text, "1  param of fc.weight  [3, 4] f32  NOT RECORDED\n"));
  CHECK(contains(text, "recorded: 1 × [2, 4]"));
  CHECK(contains(text, "not judged   needs param of fc.weight, which is not recorded\n"));
  CHECK(contains(text, "record with  TTRACE_KINDS=input,output,param\n"));
}

TEST_CASE("another name of a value equals it") {
  const Named model{Kind::kInput, "(model)", {2, 4}};
  const std::string text = inspected(holding({model, kInput}), Kind::kInput, "fc");
  CHECK(contains(text, "1  input of (model)  [2, 4] f32  recorded"));
  CHECK(contains(text, "equals       1\n"));
  CHECK_FALSE(contains(text, "computes"));
}

TEST_CASE("given, opaque and unknown tensors are said to be that") {
  const MemoryTrace trace =
      holding({kWeight, kAct, {Kind::kLoss, "loss", {}}, {Kind::kOutput, "elsewhere", {2}}});
  CHECK(contains(inspected(trace, Kind::kParam, "fc.weight"),
                 "given        it follows from nothing in the step\n"));
  const std::string loss = inspected(trace, Kind::kLoss, "loss");
  CHECK(contains(loss, "reads        output of act  [2, 3] f32  recorded"));
  CHECK(contains(loss, "not judged   computed by aten.ctc, which no primitive expresses\n"));
  CHECK(contains(inspected(trace, Kind::kOutput, "elsewhere"),
                 "not judged   the specification does not have it\n"));
}

TEST_CASE("what follows the backward is computed by rules") {
  const Named main_grad{Kind::kMainGrad, "fc.weight", {3, 4}};
  const Named raw{Kind::kParamGrad, "fc.weight", {3, 4}};
  const Named after{Kind::kParamAfterStep, "fc.weight", {3, 4}};
  const Named norm{Kind::kGradNorm, "grad_norm", {}};
  MemoryTrace trace = holding({kWeight, raw, main_grad, norm, after});
  trace.edit().optimizer.push_back({0, "adamw", {}, {}, {}, {"fc.weight"}});
  std::string text = inspected(trace, Kind::kMainGrad, "fc.weight");
  CHECK(contains(text, "reads        fc.weight · param_grad · step 0 · mb 0"));
  CHECK(contains(text, "computes     0.5 × the mean of them over micro-batches\n"));
  text = inspected(trace, Kind::kGradNorm, "grad_norm");
  CHECK(contains(text, "computes     the norm of the step's 1 main gradient\n"));
  text = inspected(trace, Kind::kParamAfterStep, "fc.weight");
  CHECK(contains(text, "fc.weight · param · step 0"));
  CHECK(contains(text, "computes     one step of adamw\n"));
  CHECK(contains(text, "judged       the trace holds"));
  text = inspected(holding({main_grad}), Kind::kMainGrad, "fc.weight");
  CHECK(contains(text, "not judged   needs param_grad, which is not recorded\n"));
  CHECK(contains(text, "record with  TTRACE_KINDS=main_grad,param_grad\n"));
}

TEST_CASE("a name that the trace does not have is refused") {
  CHECK_THROWS_AS(inspected(holding({kFc}), Kind::kOutput, "fb"), base::Error);
}

}  // namespace
}  // namespace ttrace::report::expression_text_test
