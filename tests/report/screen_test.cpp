#include "report/screen.h"

#include <algorithm>
#include <sstream>

#include "support/catch.h"

namespace ttrace::report::screen_test {
namespace {

std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

std::string written(Screen& screen, std::size_t most = kScreenLines) {
  std::ostringstream out;
  screen.write(out, most);
  return out.str();
}

TEST_CASE("labels of a screen stand in one column, and a text without words is no line") {
  Screen screen("MATCH  all is well", {});
  screen.add("where", "forward");
  screen.add("look at", "the bias");
  screen.add("not checked", "nothing of 3");
  screen.add("depth", "");
  CHECK(written(screen) ==
        "MATCH  all is well\n"
        "  where    forward\n"
        "  look at  the bias\n"
        "  not checked  nothing of 3\n");
}

TEST_CASE("a screen has at most 15 lines at 100 columns, and keeps what counts") {
  for (const std::size_t width : {0, 100, 250}) {
    Screen screen(std::string("DIVERGED  ") + std::string(180, 'x'), {false, false, width, {}});
    screen.add("where", std::string(90, 'w'));
    for (int i = 0; i < 30; ++i) {
      screen.add("also", std::string(50, 'a') + " " + std::string(60, 'b'), Screen::Keep::kShort);
    }
    screen.add("steps", "0 right", Screen::Keep::kLong);
    screen.add("not checked", "nothing of 3");
    const std::string text = written(screen);
    CHECK(lines_of(text) <= kScreenLines);
    CHECK(text.find("\n  where    w") != std::string::npos);
    CHECK(text.find("\n  steps    0 right\n") != std::string::npos);
    CHECK(text.find("\n  not checked  nothing of 3\n") != std::string::npos);
  }
}

TEST_CASE("a text that is too long ends at a word, and control characters are shown as such") {
  Screen screen("x", {});
  screen.add("where", "one two three", Screen::Keep::kAlways, 9);
  screen.add("proof", "a\x1b[2Jb");
  CHECK(written(screen) == "x\n  where    one two …\n  proof    a\\x1b[2Jb\n");
  CHECK(cut_at_word("äöü äöü", 7) == "äöü äöü");
  CHECK(cut_at_word("äöüäöüäöü", 4) == "äöüä …");
}

TEST_CASE("what to type next names the report that was written") {
  CHECK(describe_more({false, false, 0, "r.json"}, true) ==
        "ttrace explain 1 r.json · --html page.html · --all");
  CHECK(describe_more({}, true) == "--explain 1 · --html page.html · --all");
  CHECK(describe_more({false, false, 0, "", "night.html"}, true) ==
        "--explain 1 · open night.html · --all");
  CHECK(describe_more({}, false) == "--all");
}

TEST_CASE("lists are words") {
  CHECK(list_in_words({}).empty());
  CHECK(list_in_words({"a"}) == "a");
  CHECK(list_in_words({"a", "b", "c"}) == "a, b and c");
}

}  // namespace
}  // namespace ttrace::report::screen_test
