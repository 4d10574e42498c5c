#include "optimizer/settings.h"

#include <algorithm>

#include "engine/compare_traces.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::optimizer::settings_test {
namespace {

using answer::Verdict;
using comparison::CompareReport;
using test::make_entry;
using test::MemoryTrace;
using trace::Kind;
using Pairs = std::vector<SettingPair>;

// Of the gradients of both parameters, and of one.
constexpr double kNorm = 6.324555320336759;
constexpr double kNormOfOne = 4.47213595499958;

// Two parameters that an SGD step of lr 0.5 updates.
struct Run {
  double lr = 0.5;
  double momentum = 0;
  std::vector<std::string> params{"a.weight", "b.weight"};
  bool takes_the_step = true;  // with its own lr
  std::optional<double> clip_norm;
  std::string clipped_by;
  std::vector<std::string> names{"a.weight", "b.weight"};

  MemoryTrace made() const {
    MemoryTrace trace;
    for (const std::string& name : names) {
      const double norm = clipped_by.empty() ? kNorm : kNormOfOne;
      const double clip = std::min(1.0, clip_norm.value_or(2 * norm) / (norm + 1e-6));
      const double step = takes_the_step ? 0.5 * clip : 0;
      trace.put(make_entry(name, {2}, Kind::kParam), {1, 2});
      trace.put(make_entry(name, {2}, Kind::kMainGrad), {4, 2});
      trace.put(make_entry(name, {2}, Kind::kParamAfterStep), {1 - step * 4, 2 - step * 2});
    }
    trace.put(make_entry("grad_norm", {1}, Kind::kGradNorm), {kNorm});
    trace::OptimizerGroup group;
    group.type = "sgd";
    group.numbers = {{"lr", lr}, {"momentum", momentum}, {"updates", 1}};
    if (clip_norm) group.numbers["clip_norm"] = *clip_norm;
    group.clipped_by = clipped_by;
    group.params = params;
    trace.edit().optimizer = {group};
    return trace;
  }
};

CompareReport compared(const Run& reference, const Run& candidate,
                       const comparison::Selection& selection = {}) {
  const MemoryTrace r = reference.made();
  const MemoryTrace c = candidate.made();
  return engine::compare_traces(r, c, {}, {selection, 1});
}

TEST_CASE("equal settings are no finding") {
  const CompareReport report = compared({}, {});
  CHECK(report.settings.empty());
  CHECK(report.verdict == Verdict::kRight);
}

TEST_CASE("another learning rate is one finding of all its parameters, and names their updates") {
  Run other;
  other.lr = 0.25;
  const CompareReport report = compared({}, other);
  CHECK(report.verdict == Verdict::kWrong);
  REQUIRE(report.settings.size() == 1);
  const comparison::SettingDifference& lr = report.settings[0];
  CHECK(lr.name == "lr");
  CHECK(lr.reference == "0.5");
  CHECK(lr.candidate == "0.25");
  CHECK(lr.parameters == std::vector<std::string>{"a.weight", "b.weight"});
  REQUIRE(lr.updates.size() == 2);
  for (const std::size_t i : lr.updates) {
    CHECK(report.results[i].key.kind == Kind::kParamAfterStep);
  }
}

TEST_CASE("a setting that differs is a finding though every tensor agrees") {
  Run other;
  other.momentum = 0.9;  // without effect in the first update
  const CompareReport report = compared({}, other);
  CHECK(report.findings.empty());
  CHECK(report.verdict == Verdict::kWrong);
}

TEST_CASE("a parameter that one optimizer lacks is told") {
  Run other;
  other.params = {"a.weight"};
  const CompareReport report = compared({}, other);
  REQUIRE(report.settings.size() == 1);
  CHECK(report.settings[0].name == "parameter group");
  CHECK(report.settings[0].reference == "sgd");
  CHECK(report.settings[0].candidate == "none");
  CHECK(report.settings[0].parameters == std::vector<std::string>{"b.weight"});
}

TEST_CASE("settings of what is not selected are not compared") {
  Run other;
  other.lr = 0.25;
  comparison::Selection selection;
  selection.only = {"a.*"};
  const CompareReport report = compared({}, other, selection);
  REQUIRE(report.settings.size() == 1);
  CHECK(report.settings[0].parameters == std::vector<std::string>{"a.weight"});
  selection.only = {};
  selection.kinds = {Kind::kParam};
  CHECK(compared({}, other, selection).settings.empty());
}

TEST_CASE("clipping that one side says nothing of and that changes nothing is no difference") {
  Run clipped;
  clipped.clip_norm = 100;
  CHECK(compared(clipped, {}).settings.empty());
  clipped.clip_norm = 1;
  CHECK(compared(clipped, {}).settings.size() == 1);
}

TEST_CASE("clipping by the norm of other gradients is a difference where it changes an update") {
  Run whole;
  whole.clip_norm = 1;
  Run part = whole;
  part.clipped_by = "a";
  const CompareReport report = compared(whole, part);
  REQUIRE(report.settings.size() == 1);
  CHECK(report.settings[0].name == "clipped_by");
  CHECK(report.settings[0].reference == "all gradients");
  CHECK(report.settings[0].candidate == "a");
}

TEST_CASE("a trace that says nothing of its optimizer is not compared") {
  const MemoryTrace reference = Run{}.made();
  MemoryTrace candidate = Run{}.made();
  candidate.edit().optimizer.clear();
  CHECK(engine::compare_traces(reference, candidate, {}, {}).settings.empty());
}

trace::OptimizerGroup adamw() {
  trace::OptimizerGroup group;
  group.type = "adamw";
  group.numbers = {{"lr", 1e-3}, {"eps", 1e-8}, {"weight_decay", 0.1}, {"updates", 3}};
  group.betas = {0.9, 0.999};
  group.switches = {{"amsgrad", false}};
  return group;
}

TEST_CASE("equal settings do not differ, nor do copies in single precision") {
  trace::OptimizerGroup other = adamw();
  other.numbers["lr"] = static_cast<double>(1e-3F);
  other.betas[1] = static_cast<double>(0.999F);
  CHECK(setting_differences(adamw(), adamw()).empty());
  CHECK(setting_differences(adamw(), other).empty());
}

TEST_CASE("every setting that differs is told with both values") {
  trace::OptimizerGroup other = adamw();
  other.numbers = {{"lr", 2e-3}, {"eps", 1e-6}, {"weight_decay", 0}, {"updates", 2}};
  other.betas = {0.9, 0.95};
  other.switches["amsgrad"] = true;
  CHECK(setting_differences(adamw(), other) == Pairs{{"amsgrad", "not set", "set"},
                                                     {"betas", "0.9, 0.999", "0.9, 0.95"},
                                                     {"eps", "1e-8", "1e-6"},
                                                     {"lr", "0.001", "0.002"},
                                                     {"update", "3", "2"},
                                                     {"weight_decay", "0.1", "0"}});
}

TEST_CASE("as many digits are told as tell the values apart") {
  trace::OptimizerGroup other = adamw();
  other.numbers["lr"] = 1.000001e-3;
  CHECK(setting_differences(adamw(), other) == Pairs{{"lr", "0.001", "0.001000001"}});
}

TEST_CASE("clipping on one side alone is a difference, another number that one side has is none") {
  trace::OptimizerGroup other = adamw();
  other.numbers["clip_norm"] = 1;
  other.numbers["foreach"] = 1;
  CHECK(setting_differences(adamw(), other) == Pairs{{"clip_norm", "none", "1"}});
  CHECK(setting_differences(other, adamw()) == Pairs{{"clip_norm", "1", "none"}});
}

TEST_CASE("what torch.optim has a default for is compared with the default") {
  trace::OptimizerGroup other = adamw();
  other.numbers.erase("weight_decay");
  CHECK(setting_differences(adamw(), other) == Pairs{{"weight_decay", "0.1", "0"}});
}

TEST_CASE("of different optimizers only that is told") {
  trace::OptimizerGroup adam = adamw();
  adam.type = "adam";
  adam.numbers["lr"] = 7;
  CHECK(setting_differences(adamw(), adam) == Pairs{{"optimizer", "adamw", "adam"}});
  trace::OptimizerGroup one = adamw();
  trace::OptimizerGroup two = adamw();
  two.type = "adam";
  one.numbers["weight_decay"] = two.numbers["weight_decay"] = 0;
  CHECK(setting_differences(one, two).empty());
  trace::OptimizerGroup muon = adamw();
  muon.type = "muon";
  CHECK(setting_differences(adamw(), muon).empty());  // by another name it may be the same
  trace::OptimizerGroup faster = muon;
  faster.numbers["lr"] = 7;
  CHECK(setting_differences(muon, faster) == Pairs{{"lr", "0.001", "7"}});
}

TEST_CASE("plain SGD does not depend on how often it has stepped") {
  trace::OptimizerGroup one;
  one.type = "sgd";
  one.numbers = {{"lr", 0.1}, {"updates", 1}};
  trace::OptimizerGroup two = one;
  two.numbers["updates"] = 2;
  CHECK(setting_differences(one, two).empty());
  one.numbers["momentum"] = two.numbers["momentum"] = 0.9;
  CHECK(setting_differences(one, two) == Pairs{{"update", "1", "2"}});
}

}  // namespace
}  // namespace ttrace::optimizer::settings_test
