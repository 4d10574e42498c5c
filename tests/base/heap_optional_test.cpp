#include "base/heap_optional.h"

#include <string>

#include "support/catch.h"

namespace ttrace::base::heap_optional_test {
namespace {

using Text = HeapOptional<std::string>;

TEST_CASE("an empty one has no value") {
  const Text empty;
  CHECK_FALSE(empty.has_value());
  CHECK_FALSE(static_cast<bool>(empty));
  CHECK(empty == Text(std::nullopt));
  CHECK(empty == Text(std::optional<std::string>()));
  CHECK(sizeof(empty) == sizeof(void*));
}

TEST_CASE("a copy has a value of its own") {
  Text first = std::string("one");
  Text second = first;
  *second += " more";
  CHECK(*first == "one");
  CHECK(*second == "one more");
  CHECK_FALSE(first == second);
  second = first;
  CHECK(first == second);
  CHECK_FALSE(first == Text());
}

TEST_CASE("a value is set, replaced and removed") {
  Text text;
  text.emplace("x", 1);
  CHECK(text->size() == 1);
  text = std::optional<std::string>("y");
  CHECK(*text == "y");
  const Text moved = std::move(text);
  CHECK(*moved == "y");
  text = moved;
  text.reset();
  CHECK_FALSE(text.has_value());
  CHECK(moved.has_value());
  text = moved;
  text = std::nullopt;
  CHECK_FALSE(text.has_value());
}

}  // namespace
}  // namespace ttrace::base::heap_optional_test
