#include "replay/optimizer/settings.h"
#include "support/catch.h"

namespace ttrace::replay {
namespace {

trace::OptimizerGroup adamw() {
  trace::OptimizerGroup group;
  group.type = "adamw";
  group.numbers = {{"lr", 1e-3}, {"eps", 1e-8}, {"weight_decay", 0.1}, {"updates", 3}};
  group.betas = {0.9, 0.999};
  group.switches = {{"amsgrad", false}};
  return group;
}

using Pairs = std::vector<SettingPair>;

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
}  // namespace ttrace::replay
