#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "support/catch.h"
#include "synth/random.h"
#include "tensor/box.h"

namespace ttrace::synth {
namespace {

const Stream kStream = Stream::of_tensor(7, "weight");

std::vector<float> part_of(const tensor::Shape& shape, const tensor::Box& box) {
  std::vector<float> values(tensor::volume(box));
  fill_normal(kStream, shape, box, 0, 0.02, values);
  return values;
}

TEST_CASE("a part has the elements that the whole has there") {
  const tensor::Shape shape = {5, 7, 6};
  const std::vector<float> all = part_of(shape, tensor::whole(shape));
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    tensor::Box box{{}, {}};
    for (std::size_t d = 0; d < 3; ++d) {
      box.origin.push_back((seed * (d + 3)) % (shape[d] + 1));
      box.extent.push_back((seed / (d + 1)) % (shape[d] - box.origin[d] + 1));
    }
    const std::vector<float> part = part_of(shape, box);
    bool same = true;
    for (std::uint64_t i = 0; i < part.size(); ++i) {
      const tensor::Shape point = tensor::coordinates(box, i);
      same = same && part[i] == all[tensor::position(shape, point)];
    }
    CAPTURE(tensor::to_string(box));
    CHECK(same);
  }
}

TEST_CASE("a part of a tensor far larger than the memory is made alone") {
  const std::uint64_t rows = std::uint64_t{1} << 40;
  const tensor::Shape shape = {rows, 1'000'000};
  const std::vector<float> row = part_of(shape, {{rows - 1, 999'990}, {1, 10}});
  std::vector<float> expected(10);
  const std::uint64_t first = rows * 1'000'000 - 10;
  fill_normal(kStream, {first + 10}, {{first}, {10}}, 0, 0.02, expected);
  CHECK(row == expected);
}

TEST_CASE("a 0-d tensor has one element, an empty one none") {
  CHECK(part_of({}, {{}, {}}).size() == 1);
  CHECK(part_of({}, {{}, {}}) == part_of({1}, {{0}, {1}}));
  CHECK(part_of({3, 0}, {{0, 0}, {3, 0}}).empty());
}

TEST_CASE("what is no part of the tensor is refused") {
  std::vector<float> values(4);
  const auto fill_with = [&](const tensor::Shape& shape, const tensor::Box& box) {
    fill_uniform(kStream, shape, box, values);
  };
  CHECK_NOTHROW(fill_with({4}, {{0}, {4}}));
  CHECK_THROWS_AS(fill_with({4}, {{1}, {4}}), base::Error);
  CHECK_THROWS_AS(fill_with({4}, {{5}, {0}}), base::Error);
  CHECK_THROWS_AS(fill_with({4}, {{0, 0}, {4, 1}}), base::Error);
  CHECK_THROWS_AS(fill_with({4}, {{0}, {3}}), base::Error);
  const std::uint64_t huge = std::uint64_t{1} << 33;
  CHECK_THROWS_AS(fill_with({huge, huge}, {{0, 0}, {1, 4}}), base::Error);
}

}  // namespace
}  // namespace ttrace::synth
