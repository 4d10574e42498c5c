#include "trace/range/raw_range.h"

#include <fcntl.h>
#include <unistd.h>

#include <numeric>
#include <vector>

#include "base/refusal.h"
#include "property/random.h"
#include "support/temp_dir.h"

namespace ttrace::trace::range::raw_range_test {
namespace {

using tensor::Box;

// 32-bit numbers 0, 1, 2, ... from byte 7 of a file.
class Numbers {
 public:
  explicit Numbers(std::size_t count) {
    descriptor_ = ::open(folder_.file("numbers").c_str(), O_RDWR | O_CREAT, 0600);
    REQUIRE(descriptor_ >= 0);
    std::vector<std::uint32_t> values(count);
    std::iota(values.begin(), values.end(), 0U);
    const auto bytes = std::as_bytes(std::span(values));
    REQUIRE(::pwrite(descriptor_, bytes.data(), bytes.size(), 7) ==
            static_cast<ssize_t>(bytes.size()));
    range = {descriptor_, 7, bytes.size()};
  }
  ~Numbers() { ::close(descriptor_); }
  void truncate(std::uint64_t bytes) const {
    REQUIRE(::ftruncate(descriptor_, static_cast<off_t>(bytes)) == 0);
  }

  RawRange range;

 private:
  test::TempDir folder_;
  int descriptor_ = -1;
};

std::vector<std::uint32_t> read(const RawRange& range, const tensor::Shape& shape, const Box& box) {
  std::vector<std::uint32_t> out(tensor::volume(box));
  range.read_box(shape, 4, box, std::as_writable_bytes(std::span(out)), "f.h5: /a");
  return out;
}

std::vector<std::uint32_t> expected(const tensor::Shape& shape, const Box& box) {
  std::vector<std::uint32_t> values;
  tensor::for_each_sub_box(box, 1, [&](const Box& one) {
    values.push_back(static_cast<std::uint32_t>(tensor::position(shape, one.origin)));
  });
  return values;
}

TEST_CASE("any box of an array is read as it is stored", "[hdf5]") {
  const Numbers numbers(7776);
  const std::uint64_t first = test::base_seed();
  for (std::uint64_t seed = first; seed < first + 300; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    const tensor::Shape shape = random.shape(5, 1, 6);
    const Box box = random.box_in(tensor::whole(shape));
    CHECK(read(numbers.range, shape, box) == expected(shape, box));
  }
}

TEST_CASE("narrow columns, rows far apart and long rows are read alike", "[hdf5]") {
  const Numbers numbers(1U << 20);
  for (const Box& box : {Box{{3, 5}, {60, 2}}, Box{{0, 4000}, {64, 8000}}, Box{{2, 0}, {3, 16384}},
                         Box{{1, 16000}, {63, 384}}}) {
    CHECK(read(numbers.range, {64, 16384}, box) == expected({64, 16384}, box));
  }
}

TEST_CASE("a file that becomes shorter is refused, and no bytes are made up", "[hdf5]") {
  const Numbers numbers(1000);
  numbers.truncate(7 + 4 * 500);
  CHECK(read(numbers.range, {1000}, {{0}, {500}}).back() == 499);
  test::check_refused([&] { read(numbers.range, {1000}, {{0}, {501}}); }, {"f.h5: /a", "shorter"});
  test::check_refused([&] { read(numbers.range, {10, 100}, {{0, 0}, {10, 50}}); }, {"shorter"});
}

}  // namespace
}  // namespace ttrace::trace::range::raw_range_test
