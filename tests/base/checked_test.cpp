#include <limits>

#include "base/bytes.h"
#include "support/catch.h"

namespace ttrace::base {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

TEST_CASE("checked_mul gives the product or nothing") {
  CHECK(checked_mul(6, 7) == std::uint64_t{42});
  CHECK(checked_mul(0, kMost) == std::uint64_t{0});
  CHECK(checked_mul(kMost, 1) == kMost);
  CHECK(checked_mul(std::uint64_t{1} << 32, (std::uint64_t{1} << 32) - 1) ==
        kMost - ((std::uint64_t{1} << 32) - 1));
  CHECK_FALSE(checked_mul(kMost, 2).has_value());
  CHECK_FALSE(checked_mul(std::uint64_t{1} << 32, std::uint64_t{1} << 32).has_value());
}

TEST_CASE("checked_add gives the sum or nothing") {
  CHECK(checked_add(40, 2) == std::uint64_t{42});
  CHECK(checked_add(kMost, 0) == kMost);
  CHECK(checked_add(kMost - 5, 5) == kMost);
  CHECK_FALSE(checked_add(kMost, 1).has_value());
  CHECK_FALSE(checked_add(kMost, kMost).has_value());
}

}  // namespace
}  // namespace ttrace::base
