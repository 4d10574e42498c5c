#include "audit/updates.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::audit::moments_test {
namespace {

using trace::Kind;

struct Run {
  double updates = 200;
  double other_updates = 200;
  std::vector<double> norms{0, 0, 0, 0};  // two moments of each of two parameters
  double gradient = 3;
  const char* ending = ".exp_avg";
  const char* type = "";

  bool is_blamed() const {
    trace::Manifest manifest;
    for (const auto& [name, count] : {std::pair{"a", updates}, {"b", other_updates}}) {
      trace::OptimizerGroup group;
      group.numbers["updates"] = count;
      group.type = type;
      group.params = {name};
      manifest.optimizer.push_back(group);
    }
    std::vector<AuditedTensor> tensors;
    const auto add = [&](const std::string& name, Kind kind, double norm) {
      AuditedTensor tensor;
      tensor.key = test::make_key(name, kind);
      tensor.norm = norm;
      tensors.push_back(tensor);
    };
    add(std::string("a") + ending, Kind::kOptimizerState, norms[0]);
    add(std::string("a") + ending + "_sq", Kind::kOptimizerState, norms[1]);
    add(std::string("b") + ending, Kind::kOptimizerState, norms[2]);
    add(std::string("b") + ending + "_sq", Kind::kOptimizerState, norms[3]);
    add("a", Kind::kMainGrad, gradient);
    check_moments(manifest, tensors);
    return !tensors.front().checks.empty() && tensors.back().checks.empty();
  }
};

TEST_CASE("moments that are all zero after many updates were not loaded") {
  CHECK(Run().is_blamed());
}

TEST_CASE("moments of a first update, or of parameters of which one is new, may be zero") {
  Run first;
  first.updates = first.other_updates = 1;
  CHECK_FALSE(first.is_blamed());
  Run one_new;
  one_new.other_updates = 1;
  CHECK_FALSE(one_new.is_blamed());
}

TEST_CASE("one moment that is not zero says that they were loaded") {
  Run loaded;
  loaded.norms[3] = 1e-30;
  CHECK_FALSE(loaded.is_blamed());
}

TEST_CASE("without a gradient, or of other states, nothing is said") {
  Run none;
  none.gradient = 0;
  CHECK_FALSE(none.is_blamed());
  Run others;
  others.ending = ".main_param";
  CHECK_FALSE(others.is_blamed());
}

TEST_CASE("moments that are not zero at an Adam's first update were loaded without their count") {
  Run restarted;
  restarted.updates = restarted.other_updates = 1;
  restarted.norms = {1e-3, 0, 0, 0};
  restarted.type = "adamw";
  CHECK(restarted.is_blamed());
  Run goes_on = restarted;
  goes_on.updates = 2;
  CHECK_FALSE(goes_on.is_blamed());
  // The count of other optimizers is the trace's own, which begins at a resume.
  Run other = restarted;
  other.type = "lion";
  CHECK_FALSE(other.is_blamed());
}

struct Groups {
  std::vector<std::string> held{"a", "b", "c"};
  std::vector<std::string> specified{"a", "b", "c"};
  double norm = 1;  // of the main gradient of a
  std::uint64_t step = 0;

  bool is_blamed() const {
    specification::Specification specification;
    specification::Specification& of_step = specification.updates.emplace_back();
    of_step.update.emplace();
    of_step.update->step = step;
    for (const std::string& name : specified) of_step.update->settings[name].type = "sgd";
    trace::Manifest manifest;
    trace::OptimizerGroup group;
    group.params = held;
    manifest.optimizer.push_back(group);
    AuditedTensor gradient;
    gradient.key = test::make_key("a", Kind::kMainGrad);
    gradient.norm = norm;
    std::vector<AuditedTensor> tensors{gradient};
    check_groups(specification, manifest, tensors);
    return !tensors.front().checks.empty();
  }
};

TEST_CASE("a parameter with a gradient that no optimizer has any more is never updated") {
  CHECK_FALSE(Groups().is_blamed());
  Groups left_out;
  left_out.held = {"b", "c"};
  CHECK(left_out.is_blamed());
  Groups without_gradient = left_out;
  without_gradient.norm = 0;
  CHECK_FALSE(without_gradient.is_blamed());
  Groups never_had_it = left_out;
  never_had_it.specified = {"b", "c"};
  CHECK_FALSE(never_had_it.is_blamed());
  Groups in_another_step = left_out;
  in_another_step.step = 1;
  CHECK_FALSE(in_another_step.is_blamed());
  // An optimizer of other names says nothing of these.
  Groups of_other_names = left_out;
  of_other_names.held = {"x", "y", "c"};
  CHECK_FALSE(of_other_names.is_blamed());
}

}  // namespace
}  // namespace ttrace::audit::moments_test
