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

  bool is_blamed() const {
    trace::Manifest manifest;
    for (const auto& [name, count] : {std::pair{"a", updates}, {"b", other_updates}}) {
      trace::OptimizerGroup group;
      group.numbers["updates"] = count;
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

}  // namespace
}  // namespace ttrace::audit::moments_test
