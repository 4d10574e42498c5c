#include "report/first_line.h"

#include <algorithm>

#include "base/text.h"
#include "support/catch.h"

namespace ttrace::report::first_line_test {
namespace {

using Weight = Clause::Weight;

Clause unchecked(std::uint64_t tensors, const std::string& where) {
  return {"name",
          Weight::kUnchecked,
          tensors,
          {"{count} not checked {where}", {{"count", tensors}, {"where", where}}},
          "{count} left"};
}

std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
  }));
}

std::string written(const FirstLine& line) {
  const std::string text = write_first_line(line, {}).text;
  CHECK(characters(text) <= kFirstLineColumns);
  return text;
}

TEST_CASE("the first line is the sentence, its aside, the clauses and what closes it") {
  CHECK(written({"MATCH", "32", "3 tensors agree"}) == "MATCH  3 tensors agree");
  CHECK(
      written({"MATCH", "32", "3 tensors agree", " (sharp)", {unchecked(2, "here")}, {"close"}}) ==
      "MATCH  3 tensors agree (sharp); 2 not checked here; close");
}

TEST_CASE("what closes the line is shortened, then left out") {
  FirstLine line{"MATCH", "32", std::string(150, 'a')};
  line.closing = {std::string(60, 'b'), std::string(20, 'c')};
  CHECK(written(line) ==
        base::concat("MATCH  ", std::string(150, 'a'), "; ", std::string(20, 'c')));
  line.closing = {std::string(60, 'b')};
  CHECK(written(line) == base::concat("MATCH  ", std::string(150, 'a')));
}

TEST_CASE("clauses are shortened before the aside goes, and the aside goes before a clause") {
  FirstLine line{
      "MATCH", "32", std::string(100, 'a'), " (sharp)", {unchecked(1, std::string(90, 'x'))}};
  CHECK(written(line) == base::concat("MATCH  ", std::string(100, 'a'), " (sharp); 1 left"));
  line.aside = std::string(90, 'y');
  CHECK(written(line) == base::concat("MATCH  ", std::string(100, 'a'), "; 1 left"));
}

TEST_CASE("clauses that have no place are counted, by their tensors if these were not checked") {
  FirstLine line{"MATCH", "32", std::string(155, 'a')};
  for (std::uint64_t count = 1; count <= 6; ++count) line.clauses.push_back(unchecked(count, "x"));
  const WrittenFirstLine some = write_first_line(line, {});
  CHECK(some.text ==
        base::concat("MATCH  ", std::string(155, 'a'), "; 1 left; and 20 more not checked"));
  CHECK(some.left_out.size() == 5);
  for (std::size_t i = 1; i < line.clauses.size(); ++i) line.clauses[i].weight = Weight::kDoubt;
  line.sentence = std::string(160, 'a');
  CHECK(written(line).ends_with("; 1 left; and 5 more remarks"));
  line.clauses.resize(2);
  line.sentence = std::string(185, 'a');
  CHECK(written(line).ends_with("aa; 1 left; and 1 more remark"));
}

TEST_CASE("a sentence is not cut for a mere remark") {
  FirstLine line{"MATCH", "32", std::string(180, 'a'), "", {unchecked(1, "x")}};
  line.clauses[0].weight = Weight::kDoubt;
  line.clauses[0].in_short = "{count} not checked {where}, {where}";
  CHECK(written(line) == base::concat("MATCH  ", std::string(180, 'a'), "; 1 remark"));
  line.sentence = std::string(190, 'a');
  const WrittenFirstLine nothing = write_first_line(line, {});
  CHECK(nothing.text == base::concat("MATCH  ", std::string(190, 'a')));
  CHECK(nothing.left_out.size() == 1);
}

TEST_CASE("a sentence that is too long loses its middle, never the first clause") {
  FirstLine line{"DIVERGED", "31", base::concat("first at ", std::string(300, 'a'), " (end)")};
  line.clauses = {unchecked(7, "x")};
  const std::string text = written(line);
  CHECK(characters(text) == kFirstLineColumns);
  CHECK(text.starts_with("DIVERGED  first at aaa"));
  CHECK(text.find("…") != std::string::npos);
  CHECK(text.ends_with("(end); 7 left"));
  CHECK(write_first_line(line, {}).is_cut);
  CHECK_FALSE(write_first_line({"MATCH", "32", "all"}, {}).is_cut);
}

TEST_CASE("characters of several bytes count once, and are not cut") {
  std::string name;
  for (int i = 0; i < 300; ++i) name += "ε";
  const std::string text = written({"MATCH", "32", name});
  CHECK(characters(text) == kFirstLineColumns);
  std::string rest = text.substr(std::string("MATCH  ").size());
  for (const std::string part : {"ε", "…"}) {
    while (rest.starts_with(part)) rest.erase(0, part.size());
  }
  while (rest.starts_with("ε")) rest.erase(0, std::string("ε").size());
  CHECK(rest.empty());
}

TEST_CASE("colour takes no place") {
  const FirstLine line{"MATCH", "32", std::string(193, 'a')};
  CHECK(write_first_line(line, {true, false, 0}).text ==
        base::concat("\x1b[1;32mMATCH\x1b[0m  ", std::string(193, 'a')));
}

}  // namespace
}  // namespace ttrace::report::first_line_test
