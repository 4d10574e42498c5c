#include "base/shared_value.h"

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.h"

namespace ttrace::base::shared_value_test {
namespace {

using Text = SharedValue<std::string>;

TEST_CASE("a shared value takes one pointer and reads as the default") {
  STATIC_REQUIRE(sizeof(SharedValue<std::vector<double>>) == sizeof(void*));
  const Text none;
  CHECK(none->empty());
  CHECK(none.shares_with(Text(std::string())));
  CHECK(*SharedValue<int>() == 0);
}

TEST_CASE("copies share a value until one of them changes") {
  Text first(std::string("one"));
  Text second = first;
  CHECK(second.shares_with(first));
  second.change() += " more";
  CHECK(*first == "one");
  CHECK(*second == "one more");
  const std::string* const place = &*second;
  second.change() += "!";
  CHECK(&*second == place);
  first = second;
  CHECK(first.shares_with(second));
}

TEST_CASE("changing a value that was never assigned starts from the default") {
  SharedValue<std::vector<int>> list;
  list.change().push_back(3);
  CHECK(*list == std::vector<int>{3});
  list = {};
  CHECK(list->empty());
}

TEST_CASE("a shared value can be moved and assigned to itself") {
  Text from(std::string("one"));
  Text to = std::move(from);
  CHECK(from->empty());
  CHECK(*to == "one");
  const Text& itself = to;
  to = itself;
  CHECK(*to == "one");
}

TEST_CASE("threads may copy and drop one value") {
  const Text shared(std::string("a text that is longer than a string holds inside"));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&shared] {
      for (int round = 0; round < 1000; ++round) {
        Text copy = shared;
        copy.change() += "!";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(shared->back() == 'e');
}

}  // namespace
}  // namespace ttrace::base::shared_value_test
