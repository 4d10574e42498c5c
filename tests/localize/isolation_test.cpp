#include "localize/isolation.h"

#include "localize/localization.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::localize::isolation_test {
namespace {

using test::make_key;
using trace::Kind;

// A block with two modules inside it; "block.norm" is not isolated.
trace::Manifest rewritten() {
  trace::Manifest manifest;
  manifest.run.plan = trace::PlanFacts{std::string(64, 'a'), {"block", "block.fc*", "head"}};
  for (const char* module : {"block", "block.fc1", "block.norm", "head"}) {
    for (const Kind kind : {Kind::kInput, Kind::kOutput, Kind::kGradOutput}) {
      manifest.tensors.push_back(test::make_entry(module, {2}, kind));
    }
    manifest.modules.push_back({module, "Linear", "", "model.py:3", {}, {}, {}, {}});
  }
  return manifest;
}

std::map<std::string, IsolatedModule> judged(const std::vector<trace::TensorKey>& bad,
                                             const std::vector<trace::TensorKey>& frontier = {}) {
  ReportedComparison compared;
  compared.bad = bad;
  compared.frontier = frontier;
  const trace::Manifest manifest = rewritten();
  std::map<std::string, IsolatedModule> modules;
  for (IsolatedModule& module : judge_isolated(manifest, manifest, compared)) {
    modules.emplace(module.module, std::move(module));
  }
  CHECK(modules.size() == 3);
  return modules;
}

TEST_CASE("modules that give what the reference's give hold") {
  for (const auto& [name, module] : judged({make_key("loss", Kind::kLoss)})) {
    INFO(name);
    CHECK(module.verdict == answer::Verdict::kRight);
    CHECK(module.class_name == "Linear");
  }
}

TEST_CASE("a module with the same inputs and another output is at fault") {
  const auto modules =
      judged({make_key("head"), make_key("head.weight", Kind::kParamGrad), make_key("block.fc1")});
  const IsolatedModule& head = modules.at("head");
  CHECK(head.verdict == answer::Verdict::kWrong);
  CHECK(head.phase == localize::Phase::kForward);
  CHECK(head.wrong.size() == 2);
  CHECK(modules.at("block.fc1").verdict == answer::Verdict::kWrong);
}

TEST_CASE("a container is not blamed for the output of an isolated module inside it") {
  auto modules = judged({make_key("block.fc1"), make_key("block")});
  CHECK(modules.at("block.fc1").verdict == answer::Verdict::kWrong);
  CHECK(modules.at("block").verdict == answer::Verdict::kRight);
  CHECK(modules.at("block").reason.find("comes from block.fc1") != std::string::npos);
  // What is inside and not isolated is the container's.
  modules = judged({make_key("block.norm"), make_key("block")});
  CHECK(modules.at("block").verdict == answer::Verdict::kWrong);
  CHECK(modules.at("block").wrong.front().name == "block.norm");
}

TEST_CASE("a gradient that is wrong after right outputs is a fault of the backward") {
  const auto weight = make_key("block.fc1.weight", Kind::kParamGrad);
  const auto modules = judged({weight});
  CHECK(modules.at("block.fc1").verdict == answer::Verdict::kWrong);
  CHECK(modules.at("block.fc1").phase == localize::Phase::kBackward);
  CHECK(modules.at("block").verdict == answer::Verdict::kRight);
}

TEST_CASE("a main gradient counts only where nothing before it explains it") {
  const auto summed = make_key("head.weight", Kind::kMainGrad);
  CHECK(judged({summed}).at("head").verdict == answer::Verdict::kRight);
  const IsolatedModule head = judged({summed}, {summed}).at("head");
  CHECK(head.verdict == answer::Verdict::kWrong);
  CHECK(head.phase == localize::Phase::kSynchronisation);
}

TEST_CASE("a module that received something else is not judged") {
  const auto modules = judged({make_key("head", Kind::kInput), make_key("head")});
  CHECK(modules.at("head").verdict == answer::Verdict::kInconclusive);
  CHECK(modules.at("head").reason.find("differs under the plan") != std::string::npos);
}

TEST_CASE("of another gradient only the forward is judged") {
  const auto gradient = make_key("head", Kind::kGradOutput);
  const auto weight = make_key("head.weight", Kind::kParamGrad);
  CHECK(judged({gradient, weight}).at("head").verdict == answer::Verdict::kInconclusive);
  const IsolatedModule head = judged({make_key("head"), gradient, weight}).at("head");
  CHECK(head.verdict == answer::Verdict::kWrong);
  CHECK(head.wrong.size() == 1);
}

}  // namespace
}  // namespace ttrace::localize::isolation_test
