#include "base/message.h"

#include "base/error.h"
#include "support/catch.h"

namespace ttrace::base::message_test {
namespace {

std::string with_count(std::string_view text, std::uint64_t count) {
  return render({text, {{"count", count}}});
}

TEST_CASE("a message renders its values by name") {
  CHECK(render({"no values", {}}) == "no values");
  CHECK(render({"{a} and {b}, {a}", {{"a", std::uint64_t{3}}, {"b", "x"}}}) == "3 and x, 3");
  CHECK(render({"off by {error}", {{"error", 0.0123456}}}) == "off by 0.0123");
}

TEST_CASE("counts bring their noun and the right verb") {
  CHECK(with_count("{count:tensor}", 1) == "1 tensor");
  CHECK(with_count("{count:loss}", 2) == "2 losses");
  CHECK(with_count("{count} {count?holds|hold} it", 1) == "1 holds it");
  CHECK(with_count("{count} {count?holds|hold} it", 0) == "0 hold it");
}

TEST_CASE("texts come from files and are made printable, braces in them stay") {
  CHECK(render({"({name})", {{"name", "a\x1b[31m"}}}) == "(a\\x1b[31m)");
  CHECK(render({"({name})", {{"name", "{count}"}}}) == "({count})");
}

TEST_CASE("text in brackets needs its values") {
  const std::string_view text = "it differs[ on {rank}][, in {place}]";
  CHECK(render({text, {}}) == "it differs");
  CHECK(render({text, {{"rank", ""}, {"place", "fc"}}}) == "it differs, in fc");
  CHECK(rendered_if_complete({text, {{"rank", std::uint64_t{0}}}}) == "it differs on 0");
  CHECK_FALSE(rendered_if_complete({"{a}[ and {b}]", {{"b", "x"}}}).has_value());
  CHECK_FALSE(rendered_if_complete({"{a}", {{"a", ""}}}).has_value());
}

TEST_CASE("a template that names what is not there is a mistake of the program") {
  CHECK_THROWS_AS(render({"{a}", {}}), Error);
  CHECK_THROWS_AS(render({"{a:tensor}", {{"a", "text"}}}), Error);
}

}  // namespace
}  // namespace ttrace::base::message_test
