#include "report/terminal_text.h"
#include "support/catch.h"

namespace ttrace::report {
namespace {

TEST_CASE("text that fits or has no width is left alone") {
  CHECK(wrapped("one two", 0, 4) == "one two");
  CHECK(wrapped("one two", 11, 4) == "one two");
  CHECK(wrapped("", 5, 4).empty());
  CHECK(wrapped("a      b", 80, 0) == "a      b");
}

TEST_CASE("long text is folded at spaces, later lines indented") {
  CHECK(wrapped("one two three", 10, 4) == "one\n    two\n    three");
  CHECK(wrapped("one two three", 11, 4) == "one two\n    three");
  CHECK(wrapped("one      two", 8, 2) == "one\n  two");
}

TEST_CASE("a word longer than the line stays whole") {
  CHECK(wrapped("a extraordinarily b", 8, 2) == "a\n  extraordinarily\n  b");
  CHECK(wrapped("extraordinarily", 5, 10) == "extraordinarily");
}

TEST_CASE("characters of several bytes take one column") {
  CHECK(wrapped("ε·ε ε·ε", 7, 0) == "ε·ε ε·ε");
  CHECK(wrapped("ε·ε ε·ε", 6, 0) == "ε·ε\nε·ε");
}

}  // namespace
}  // namespace ttrace::report
