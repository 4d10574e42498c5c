#include "localize/causes/cause.h"
#include "support/catch.h"

namespace ttrace::localize::stale_test {
namespace {

TEST_CASE("a parameter is stale where most of what is wrong in it did not move") {
  CHECK(find_stale({0, 0, 0}).empty());
  CHECK(find_stale({10, 5, 0.1}).empty());
  const auto causes = find_stale({10, 8, 0.1});
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].name == "stale");
  CHECK(causes[0].evidence == "8 of the 10 wrong elements still have their old value");
  CHECK(causes[0].unexplained == Approx(0.02));
}

}  // namespace
}  // namespace ttrace::localize::stale_test
