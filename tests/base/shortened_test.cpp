#include "base/text.h"
#include "support/catch.h"

namespace ttrace::base {
namespace {

TEST_CASE("a short text stays as it is") {
  CHECK(shortened("") == "");
  CHECK(shortened("12345678", 8) == "12345678");
}

TEST_CASE("a long text keeps its beginning and its end") {
  CHECK(shortened("abcdefghijkl", 8) == "abcdef [... 4 bytes ...] kl");
}

TEST_CASE("no character is cut in two") {
  CHECK(shortened("abcde\u00e9ghij\u00e9l", 8) == "abcde [... 8 bytes ...] l");
}

}  // namespace
}  // namespace ttrace::base
