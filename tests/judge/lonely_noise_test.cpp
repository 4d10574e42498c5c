#include "judge/lonely_noise.h"

#include <limits>
#include <string>

#include "support/catch.h"

namespace ttrace::judge::lonely_noise_test {
namespace {

using trace::Kind;
using trace::TensorKey;

constexpr double kEpsilon = 0x1p-23;
constexpr std::uint64_t kElements = 64;
constexpr double kNorm = 8;  // a root mean square of 1

TensorKey key_of(Kind kind, const std::string& name, std::uint64_t step = 0) {
  TensorKey key;
  key.kind = kind;
  key.name = name;
  key.step = step;
  return key;
}

// `noise` is relative to the norm.
void add(LonelyNoise& all, Kind kind, const std::string& name, double noise, double norm = kNorm,
         std::uint64_t step = 0) {
  all.add(key_of(kind, name, step), noise * norm, norm, kElements, kEpsilon);
}

// Layers whose outputs and gradients have the noise of roundings; of one of them more.
LonelyNoise layers(double output = 1e-7, double gradient = 1e-7) {
  LonelyNoise all;
  for (int i = 0; i < 6; ++i) {
    const std::string name = "layers." + std::to_string(i);
    add(all, Kind::kParam, name + ".weight", 0);
    add(all, Kind::kOutput, name, i == 3 ? output : 1e-7);
    add(all, Kind::kMainGrad, name + ".weight", i == 3 ? gradient : 1e-7);
  }
  return all;
}

TEST_CASE("noise that a tensor shows alone is found") {
  const auto found = layers(0.05).find();
  REQUIRE(found.size() == 1);
  CHECK(found[0].key == key_of(Kind::kOutput, "layers.3"));
  // Half of it in units of norm and usual size, over ε.
  CHECK(found[0].times == Catch::Approx(0.025 / kEpsilon));
  CHECK(layers(1e-7, 0.05).find().size() == 1);
}

TEST_CASE("noise that a module shows in its gradients too is a kink or another choice") {
  CHECK(layers(0.05, 0.01).find().empty());
  CHECK(layers(0.05, 0.001).find().empty());
}

TEST_CASE("noise of a rounding or a few is as it should be") {
  CHECK(layers().find().empty());
  CHECK(layers(1e-5).find().empty());
  CHECK(layers(0).find().empty());
}

TEST_CASE("a gradient that cancels has the noise of its module's sums") {
  LonelyNoise all = layers();
  // Of a bias before a batch norm nothing is left but what was rounded.
  add(all, Kind::kMainGrad, "layers.3.bias", 3, 1e-6);
  CHECK(all.find().empty());
  LonelyNoise large = layers();
  add(large, Kind::kMainGrad, "head.weight", 1e-7, 1e4 * kNorm);
  add(large, Kind::kMainGrad, "head.bias", 1, 1e-3 * kNorm);
  CHECK(large.find().empty());
}

TEST_CASE("the noise of a loss is held against that of the outputs") {
  const auto with_loss = [](double noise, double loss, double outputs = 1e-7) {
    LonelyNoise all = layers(outputs, outputs);
    all.add(key_of(Kind::kLoss, "loss"), noise, loss, 1, kEpsilon);
    return all.find().size();
  };
  CHECK(with_loss(0.1, 2) == 1);
  CHECK(with_loss(1e-6, 2) == 0);
  CHECK(with_loss(1e-6, 1e-6) == 0);  // nearly 0, and so all of it is noise
  CHECK(with_loss(0.1, 2, 0.01) == 0);
}

TEST_CASE("after an update of Adam noise may come from a parameter") {
  LonelyNoise all = layers();
  for (int i = 0; i < 6; ++i) {
    const std::string name = "layers." + std::to_string(i);
    add(all, Kind::kParam, name + ".weight", i == 0 ? 0.05 : 1e-7, kNorm, 1);
    add(all, Kind::kOutput, name, i == 4 ? 0.05 : 1e-7, kNorm, 1);
  }
  CHECK(all.find().empty());
}

TEST_CASE("nothing is said of few tensors, or of noise that is not finite") {
  LonelyNoise few;
  add(few, Kind::kOutput, "a", 0.5);
  add(few, Kind::kOutput, "b", 1e-7);
  CHECK(few.find().empty());
  CHECK(LonelyNoise().find().empty());
  const double infinite = std::numeric_limits<double>::infinity();
  CHECK(layers(infinite).find().empty());
  LonelyNoise zero;
  for (const char* name : {"a", "b", "c", "d"}) zero.add(key_of(Kind::kOutput, name), 0, 0, 0, 0);
  CHECK(zero.find().empty());
}

}  // namespace
}  // namespace ttrace::judge::lonely_noise_test
