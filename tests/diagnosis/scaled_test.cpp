#include "diagnosis/scaled.h"

#include "diagnosis/case_for_test.h"
#include "support/catch.h"

namespace ttrace::diagnosis {
namespace {

using test::Scene;

const std::vector<double> kReference = test::random_values(64, 1);

std::vector<Cause> causes_of(const std::vector<double>& candidate, trace::Mesh mesh = {},
                             tensor::DType dtype = tensor::DType::kFloat32) {
  Scene scene(std::move(mesh), kReference, dtype);
  scene.hold_everywhere(candidate);
  return find_scaled(scene.the_case());
}

TEST_CASE("twice the reference is scaled by two") {
  const std::vector<Cause> causes = causes_of(test::times(2, kReference));
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "scaled");
  CHECK(causes[0].axis.empty());
  CHECK(causes[0].evidence.find("2 times the reference") == 0);
  CHECK(causes[0].unexplained < 1e-7);
}

TEST_CASE("a factor that is the size of an axis, or its inverse, names the axis") {
  const trace::Mesh mesh = test::make_mesh({{"pp", 1}, {"dp", 4}, {"tp", 3}});
  const auto by = [&mesh](double factor) {
    return causes_of(test::times(factor, kReference), mesh);
  };
  REQUIRE(by(4).size() == 1);
  CHECK(by(4)[0].axis == "dp");
  CHECK(by(4)[0].evidence.find("the size of axis dp") != std::string::npos);
  REQUIRE(by(1.0 / 3).size() == 1);
  CHECK(by(1.0 / 3)[0].axis == "tp");
  CHECK(by(1.0 / 3)[0].evidence.find("the inverse of the size of axis tp") != std::string::npos);
  REQUIRE(by(1.005).size() == 1);
  CHECK(by(1.005)[0].axis.empty());  // pp has size 1: nothing was multiplied over it
  REQUIRE(by(65536).size() == 1);
  CHECK(by(65536)[0].axis.empty());
  REQUIRE(by(-1).size() == 1);
  CHECK(by(-1)[0].evidence.find("-1 times the reference") == 0);
}

TEST_CASE("a factor is recognised in double precision too") {
  const trace::Mesh mesh = test::make_mesh({{"tp", 2}});
  const auto causes = causes_of(test::times(0.5, kReference), mesh, tensor::DType::kFloat64);
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].axis == "tp");
}

TEST_CASE("the roundings of a large multiple are as large as it") {
  std::vector<double> candidate = test::times(1000, kReference);
  for (std::size_t i = 0; i < candidate.size(); i += 2) candidate[i] *= 1 + 0x1p-22;
  const auto causes = causes_of(candidate);
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].evidence.find("1000 times the reference") == 0);
}

TEST_CASE("all zeros are nought times the reference") {
  const auto causes = causes_of(std::vector<double>(64, 0.0));
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].evidence.find("0 times the reference") == 0);
}

TEST_CASE("a random perturbation is no scale") {
  std::vector<double> candidate = kReference;
  const std::vector<double> other = test::random_values(64, 3);
  for (std::size_t i = 0; i < candidate.size(); ++i) candidate[i] += 0.1 * other[i];
  CHECK(causes_of(candidate).empty());
  CHECK(causes_of(test::random_values(64, 4)).empty());
}

TEST_CASE("a scale with something left over is no scale") {
  std::vector<double> candidate = test::times(2, kReference);
  candidate[5] += 0.5;
  CHECK(causes_of(candidate).empty());
}

TEST_CASE("one element is a multiple of any other, so it shows nothing") {
  Scene scene({}, std::vector<double>{3});
  scene.hold_everywhere({6});
  CHECK(find_scaled(scene.the_case()).empty());
}

TEST_CASE("a reference of zeros has no multiples") {
  Scene scene({}, std::vector<double>(8, 0.0));
  scene.hold_everywhere(std::vector<double>(8, 1.0));
  CHECK(find_scaled(scene.the_case()).empty());
}

TEST_CASE("an error that is nearly allowed is not told as a scale") {
  std::vector<double> candidate = kReference;
  for (double& value : candidate) value *= 1 + 1e-6;
  candidate[0] += 2e-6;
  CHECK(causes_of(candidate).empty());
}

TEST_CASE("non-finite values and copies that disagree are no scale") {
  std::vector<double> candidate = test::times(2, kReference);
  candidate[3] = std::nan("");
  CHECK(causes_of(candidate).empty());
  Scene scene(test::make_mesh({{"tp", 2}}), kReference);
  scene.hold(0, test::times(2, kReference));
  CHECK(find_scaled(scene.the_case()).empty());
}

}  // namespace
}  // namespace ttrace::diagnosis
