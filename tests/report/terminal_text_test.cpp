#include "report/terminal_text.h"

#include <limits>

#include "report/text_report.h"
#include "support/catch.h"

namespace ttrace::report::terminal_text_test {
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

TEST_CASE("a line of progress has share, bytes, rate, time left and the largest error") {
  CHECK(progress_text({1'200'000'000, 2'400'000'000, 4, "fc1 · output · step 0", 0.00312}) ==
        "50 %  1.2 GB of 2.4 GB  300.0 MB/s  0:04 left  largest error 0.00312 in fc1 · output · "
        "step 0");
  CHECK(progress_text({1'000'000, 1'000'000'000, 10, "", 0}) ==
        "0 %  1.0 MB of 1.0 GB  100.0 kB/s  2:46:30 left");
}

TEST_CASE("before anything is done, and where nothing is to be done") {
  CHECK(progress_text({0, 5000, 0, "", 0}) == "0 %  0 B of 5.0 kB");
  CHECK(progress_text({0, 0, 1, "", 0}) == "0 %  0 B of 0 B  0 B/s");
  CHECK(progress_text({7, 7, 1, "a\nb", std::numeric_limits<double>::infinity()}) ==
        "100 %  7 B of 7 B  7 B/s  0:00 left  largest error inf in a\\x0ab");
}

}  // namespace

}  // namespace ttrace::report::terminal_text_test
