#include "measure/optimizer/hyperparameters.h"

#include <limits>

#include "support/catch.h"
#include "trace/manifest.h"

namespace ttrace::measure::hyperparameters_test {
namespace {

trace::OptimizerGroup adamw() {
  trace::OptimizerGroup group;
  group.type = "adamw";
  group.numbers = {{"lr", 0.01}, {"eps", 1e-8}, {"weight_decay", 0.1}, {"updates", 2}};
  group.betas = {0.9, 0.999};
  return group;
}

TEST_CASE("an optimizer's numbers are read") {
  trace::OptimizerGroup group = adamw();
  group.numbers["clip_norm"] = 0.5;
  group.switches["amsgrad"] = true;
  const auto h = read_hyperparameters(group).values;
  REQUIRE(h);
  CHECK(h->algorithm == Algorithm::kAdamW);
  CHECK(h->lr == 0.01);
  CHECK(h->weight_decay == 0.1);
  CHECK(h->beta2 == 0.999);
  CHECK(h->updates == 2);
  CHECK(h->clip_norm == std::optional<double>(0.5));
  CHECK(h->amsgrad);
  CHECK_FALSE(h->maximize);
}

TEST_CASE("numbers that no optimizer accepts are not replayed") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const char* name : {"lr", "eps", "weight_decay", "updates", "clip_norm"}) {
    for (const double value : {nan, infinity, -infinity, -1.0}) {
      trace::OptimizerGroup group = adamw();
      group.numbers[name] = value;
      CAPTURE(name, value);
      CHECK_FALSE(read_hyperparameters(group).values);
      CHECK_FALSE(read_hyperparameters(group).problem.empty());
    }
  }
  for (const double value : {nan, infinity, -0.1, 1.0}) {
    trace::OptimizerGroup group = adamw();
    group.betas[1] = value;
    CHECK_FALSE(read_hyperparameters(group).values);
  }
}

TEST_CASE("what an optimizer needs and the manifest lacks is named") {
  for (const char* name : {"lr", "eps", "updates"}) {
    trace::OptimizerGroup group = adamw();
    group.numbers.erase(name);
    CHECK(read_hyperparameters(group).problem ==
          "the adamw of the manifest has no " + std::string(name));
  }
  trace::OptimizerGroup group = adamw();
  group.betas.clear();
  CHECK(read_hyperparameters(group).problem == "the adamw of the manifest has no betas");
  group.type = "mu\non";
  CHECK(read_hyperparameters(group).problem ==
        "the optimizer mu\\x0aon is none that can be replayed");
}

TEST_CASE("hyperparameters that have an effect are held against the reference's") {
  const Hyperparameters reference = *read_hyperparameters(adamw()).values;
  Hyperparameters candidate = reference;
  CHECK(first_difference(candidate, reference).empty());
  candidate.lr = static_cast<double>(static_cast<float>(reference.lr));
  candidate.momentum = 0.9;  // not Adam's
  CHECK(first_difference(candidate, reference).empty());
  candidate.lr = 0.02;
  CHECK(first_difference(candidate, reference) == "lr 0.02, in the reference 0.01");
  candidate = reference;
  candidate.updates = 3;
  CHECK(first_difference(candidate, reference) == "update 3, in the reference 2");
  candidate = reference;
  candidate.algorithm = Algorithm::kAdam;
  CHECK(first_difference(candidate, reference) == "another optimizer than in the reference");
  Hyperparameters undecayed = reference;
  candidate.weight_decay = undecayed.weight_decay = 0;
  CHECK(first_difference(candidate, undecayed).empty());
  candidate.amsgrad = true;
  CHECK(first_difference(candidate, undecayed) == "amsgrad set, unlike in the reference");
}

}  // namespace
}  // namespace ttrace::measure::hyperparameters_test
