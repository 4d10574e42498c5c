#include "support/catch.h"
#include "tensor/box.h"

namespace ttrace::tensor {
namespace {

constexpr std::uint64_t kHuge = std::uint64_t{1} << 40;

TEST_CASE("elements are counted") {
  CHECK(element_count({}) == std::uint64_t{1});
  CHECK(element_count({7}) == std::uint64_t{7});
  CHECK(element_count({2, 3, 4}) == std::uint64_t{24});
  CHECK(element_count({kHuge, std::uint64_t{1} << 23}) == std::uint64_t{1} << 63);
}

TEST_CASE("a count that overflows is absent") {
  CHECK_FALSE(element_count({kHuge, kHuge}).has_value());
  CHECK_FALSE(element_count({UINT64_MAX, 2}).has_value());
  CHECK(element_count({UINT64_MAX}) == UINT64_MAX);
}

TEST_CASE("a zero extent wins over an overflow wherever it stands") {
  CHECK(element_count({0}) == std::uint64_t{0});
  CHECK(element_count({kHuge, kHuge, 0}) == std::uint64_t{0});
  CHECK(element_count({0, kHuge, kHuge}) == std::uint64_t{0});
  CHECK(byte_count({kHuge, kHuge, 0}, DType::kFloat64) == std::uint64_t{0});
}

TEST_CASE("bytes are elements times their width") {
  CHECK(byte_count({}, DType::kFloat64) == std::uint64_t{8});
  CHECK(byte_count({3, 5}, DType::kBFloat16) == std::uint64_t{30});
  CHECK(byte_count({UINT64_MAX}, DType::kInt8) == UINT64_MAX);
  CHECK_FALSE(byte_count({std::uint64_t{1} << 61}, DType::kFloat64).has_value());
  CHECK_FALSE(byte_count({kHuge, kHuge}, DType::kInt8).has_value());
}

TEST_CASE("shapes as text") {
  CHECK(to_string(Shape{}) == "[]");
  CHECK(to_string(Shape{8}) == "[8]");
  CHECK(to_string(Shape{8, 0, 32}) == "[8, 0, 32]");
}

}  // namespace
}  // namespace ttrace::tensor
