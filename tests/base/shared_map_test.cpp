#include "base/shared_map.h"

#include <string>

#include "support/catch.h"

namespace ttrace::base::shared_map_test {
namespace {

using Ages = SharedMap<std::string, int>;

TEST_CASE("copies share their members until one is changed") {
  const Ages first{{"a", 1}, {"b", 2}};
  Ages second = first;
  CHECK(&first.at("a") == &second.at("a"));
  second["a"] = 3;
  CHECK(first.at("a") == 1);
  CHECK(second.at("a") == 3);
  CHECK(second.at("b") == 2);
}

TEST_CASE("every way to change a copy leaves the first as it was") {
  const Ages first{{"a", 1}, {"b", 2}};
  Ages emplaced = first;
  emplaced.emplace("c", 3);
  CHECK(emplaced.size() == 3);
  Ages assigned = first;
  assigned.insert_or_assign("b", 4);
  CHECK(assigned.at("b") == 4);
  Ages erased = first;
  erased.erase("b");
  erased.erase("absent");
  CHECK_FALSE(erased.contains("b"));
  Ages cleared = first;
  cleared.clear();
  CHECK(cleared.empty());
  CHECK(first == Ages{{"a", 1}, {"b", 2}});
}

TEST_CASE("maps are equal by their members, however they were made") {
  Ages removed{{"a", 1}};
  removed.erase("a");
  CHECK(removed == Ages());
  CHECK(Ages(std::map<std::string, int>{}) == Ages());
  CHECK_FALSE(removed == Ages{{"a", 1}});
  CHECK(Ages().find("a") == Ages().end());
}

}  // namespace
}  // namespace ttrace::base::shared_map_test
