#include "localize/case_for_test.h"
#include "localize/causes/cause.h"
#include "support/catch.h"

namespace ttrace::localize::scaled_test {
namespace {

using test::Scene;

const std::vector<double> kReference = test::random_values(64, 1);

std::vector<Cause> causes_of(const std::vector<double>& candidate, trace::Mesh mesh = {},
                             tensor::DType dtype = tensor::DType::kFloat32,
                             std::map<std::string, std::string> reduced_over = {}) {
  Scene scene(std::move(mesh), kReference, dtype);
  scene.hold_everywhere(candidate);
  Case the_case = scene.the_case();
  the_case.reduced_over = std::move(reduced_over);
  return find_scaled(the_case);
}

TEST_CASE("twice the reference is scaled by two") {
  const std::vector<Cause> causes = causes_of(test::times(2, kReference));
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "scaled");
  CHECK(causes[0].axis.empty());
  CHECK(causes[0].evidence.find("2 times the reference") == 0);
  CHECK(causes[0].unexplained < 1e-7);
}

TEST_CASE("a factor that is the size of an axis names it where a sum was made over the axis") {
  const trace::Mesh mesh = test::make_mesh({{"pp", 1}, {"dp", 4}, {"tp", 3}, {"cp", 4}});
  const std::map<std::string, std::string> sums{{"dp", "its param_grad is a partial sum over dp"},
                                                {"tp", "its input is cut over tp"}};
  const auto by = [&](double factor) {
    return causes_of(test::times(factor, kReference), mesh, tensor::DType::kFloat32, sums);
  };
  REQUIRE(by(4).size() == 1);
  CHECK(by(4)[0].axis == "dp");
  CHECK(by(4)[0].evidence.find("the size of axis dp: its param_grad is a partial sum over dp") !=
        std::string::npos);
  REQUIRE(by(1.0 / 3).size() == 1);
  CHECK(by(1.0 / 3)[0].axis == "tp");
  CHECK(by(1.0 / 3)[0].evidence.find("0.3333333 = 1/3 times the reference, the inverse of the size "
                                     "of axis tp") == 0);
  REQUIRE(by(1.005).size() == 1);
  CHECK(by(1.005)[0].axis.empty());  // pp has size 1: nothing was multiplied over it
  REQUIRE(by(65536).size() == 1);
  CHECK(by(65536)[0].axis.empty());
  REQUIRE(by(-1).size() == 1);
  CHECK(by(-1)[0].evidence.find("-1 times the reference") == 0);
}

TEST_CASE("the size of an axis alone says nothing, nor do two axes of one size") {
  const trace::Mesh mesh = test::make_mesh({{"dp", 2}, {"tp", 2}});
  const auto causes = causes_of(test::times(2, kReference), mesh);
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].axis.empty());
  CHECK(causes[0].evidence.find("2 times the reference (") == 0);
  const auto both = causes_of(test::times(2, kReference), mesh, tensor::DType::kFloat32,
                              {{"dp", "one sum"}, {"tp", "another"}});
  CHECK(both[0].axis.empty());
  CHECK(both[0].evidence.find("2 times the reference (") == 0);
}

TEST_CASE("a factor is recognised in double precision too") {
  const trace::Mesh mesh = test::make_mesh({{"tp", 2}});
  const auto causes = causes_of(test::times(0.5, kReference), mesh, tensor::DType::kFloat64,
                                {{"tp", "its input is cut over tp"}});
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].axis == "tp");
}

TEST_CASE("a factor has the digits that are known of it, and the fraction that it is") {
  CHECK(describe_factor(32.0 / 31, 2e-5) == "1.03226 = 32/31");
  CHECK(describe_factor(1.0323, 5e-5) == "1.0323 = 32/31");
  CHECK(describe_factor(1.0323, 0.003) == "1.032");  // as well 33/32
  CHECK(describe_factor(0.75, 1e-3) == "0.75 = 3/4");
  CHECK(describe_factor(0.5, 0) == "0.5 = 1/2");
  CHECK(describe_factor(1 / 65536.0, 1e-12) == "1.525879e-05 = 1/65536");
  CHECK(describe_factor(1 / 65536.0, 1e-9) == "1.5259e-05");  // as well 1/65537
  CHECK(describe_factor(2, 1e-3) == "2");
  CHECK(describe_factor(3.14159, 1e-6) == "3.14159");
  CHECK(describe_factor(-0.5, 1e-6) == "-0.5 = -1/2");
  CHECK(describe_factor(0, 0) == "0");
}

TEST_CASE("a factor in a sentence has few digits, and is never one") {
  CHECK(shortest_factor(0.5, 0) == "1/2");
  CHECK(shortest_factor(0.9731234, 1e-9) == "0.973");
  CHECK(shortest_factor(0.99957312, 1e-9) == "0.99957");
  CHECK(shortest_factor(1.00043123, 1e-9) == "1.00043");
  CHECK(shortest_factor(1 - 1.5e-6, 1e-12) == "0.9999985");
}

TEST_CASE("a factor that is not one is never printed as one") {
  CHECK(describe_factor(1.004, 0.1) == "1.004");
  CHECK(describe_factor(1 + 3e-9, 1e-3) == "1.000000003");
  CHECK(describe_factor(0.99996, 0.01) == "0.99996");
}

// A gradient of bf16: the candidate's rounding is its own.
std::vector<double> in_bf16(double factor, std::uint32_t seed) {
  const std::vector<double> rounding = test::random_values(kReference.size(), seed);
  std::vector<double> values = test::times(factor, kReference);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= 1 + 0.006 * rounding[i];
  return values;
}

TEST_CASE("what is left over may be as large as the noise") {
  for (const double factor : {1.03, 1.1, 0.97}) {
    INFO(factor);
    Scene scene({}, kReference);
    scene.hold_everywhere(in_bf16(factor, 7));
    Case the_case = scene.the_case();
    the_case.tolerance.epsilon = 0x1p-7;
    the_case.tolerance.floor_norm = 0.11 * 4.6;
    CHECK(find_scaled(the_case).size() == 1);
    // In single precision nothing would leave as much.
    the_case.tolerance.epsilon = 0x1p-23;
    the_case.noise_norm = 1e-6;
    CHECK(find_scaled(the_case).size() == (factor == 1.1 ? 1 : 0));
    the_case.noise_norm = 0.01;
    CHECK(find_scaled(the_case).size() == 1);
  }
}

TEST_CASE("the roundings of a large multiple are as large as it") {
  std::vector<double> candidate = test::times(1000, kReference);
  for (std::size_t i = 0; i < candidate.size(); i += 2) candidate[i] *= 1 + 0x1p-22;
  const auto causes = causes_of(candidate);
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].evidence.find("1000 times the reference") == 0);
}

TEST_CASE("a constant is a multiple of nothing, and zeros have a name of their own") {
  CHECK(causes_of(std::vector<double>(64, 0.0)).empty());
  CHECK(causes_of(std::vector<double>(64, 1.0)).empty());
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
}  // namespace ttrace::localize::scaled_test
