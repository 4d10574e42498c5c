#include "base/error.h"

#include <locale>
#include <stdexcept>
#include <type_traits>

#include "support/catch.h"

namespace ttrace::base::error_test {
namespace {

TEST_CASE("errors carry their kind and their words") {
  CHECK(usage_error("no flag ", 3).kind() == ErrorKind::kUsage);
  CHECK(std::string(usage_error("no flag ", 3).what()) == "no flag 3");
  CHECK(input_error("a.h5", ": ", 1.5).kind() == ErrorKind::kInput);
  CHECK(std::string(input_error("a.h5", ": ", 1.5).what()) == "a.h5: 1.5");
  CHECK(internal_error("x").kind() == ErrorKind::kInternal);
  CHECK(std::string(internal_error("x").what()) == "defect in ttrace: x; please report it");
}

TEST_CASE("an input error with a context is an input error with a longer message") {
  const InputError inner = input_error("sizes overflow");
  const InputError outer = inner.in("placements/tp");
  CHECK(std::string(outer.what()) == "placements/tp: sizes overflow");
  CHECK(outer.kind() == ErrorKind::kInput);
}

TEST_CASE("only input errors are caught as such, and none loses its type") {
  CHECK_THROWS_AS(throw input_error("a.h5"), InputError);
  CHECK_THROWS_AS(throw InputError(input_error("a.h5")).in("a"), InputError);
  static_assert(!std::is_constructible_v<Error, InputError>);
  static_assert(!std::is_convertible_v<Error, InputError>);
}

TEST_CASE("concat writes numbers the same in every locale") {
  struct Grouped : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const std::locale before = std::locale::global(std::locale(std::locale(), new Grouped));
  const std::string text = concat(1234567, " ", 2.5);
  std::locale::global(before);
  CHECK(text == "1234567 2.5");
}

}  // namespace
}  // namespace ttrace::base::error_test
