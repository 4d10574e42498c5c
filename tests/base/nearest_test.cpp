#include "base/names.h"
#include "support/catch.h"

namespace ttrace::base {
namespace {

using Names = std::vector<std::string>;

TEST_CASE("the nearest names come by edit distance and then in order") {
  const Names names{"decoder", "encoder", "embedding", "encoders"};
  CHECK(nearest_names("encodr", names) == Names{"encoder", "encoders", "decoder"});
  CHECK(nearest_names("encoder", names, 1) == Names{"encoder"});
  CHECK(nearest_names("kitten", {"bitten", "sitting", "mitten"}, 2) == Names{"bitten", "mitten"});
  CHECK(nearest_names("x", {}).empty());
}

TEST_CASE("names that contain the wanted one are nearest") {
  CHECK(nearest_names("mlp", {"map", "decoder.layers.0.mlp", "nlp"}, 1) ==
        Names{"decoder.layers.0.mlp"});
  // A pattern is compared without its stars.
  CHECK(nearest_names("*mlp*", {"map", "decoder.layers.0.mlp"}, 1) ==
        Names{"decoder.layers.0.mlp"});
}

TEST_CASE("a name is suggested once and very long ones never") {
  CHECK(nearest_names("ab", {"aa", "aa", "cc"}) == Names{"aa", "cc"});
  CHECK(nearest_names("ab", {std::string(513, 'a'), "zz"}) == Names{"zz"});
  CHECK(nearest_names("ab", {std::string(512, 'a')}).size() == 1);
  CHECK(nearest_names(std::string(100000, 'a'), {"a"}).empty());
}

TEST_CASE("a hint reads as the end of a sentence") {
  CHECK(nearest_hint("a", {}).empty());
  CHECK(nearest_hint("a", {"b"}) == "; the nearest name is b");
  CHECK(nearest_hint("a", {"b", "c"}) == "; the nearest names are b and c");
  CHECK(nearest_hint("a", {"b", "c", "d", "e"}) == "; the nearest names are b, c and d");
}

TEST_CASE("a mistyped word has one suggestion, another word none") {
  const Names commands{"compare", "calibrate", "inspect", "lint", "merge", "report"};
  CHECK(did_you_mean("comapre", commands) == "; did you mean \"compare\"?");
  CHECK(did_you_mean("insp", commands) == "; did you mean \"inspect\"?");
  CHECK(did_you_mean("xyzzy", commands).empty());
  CHECK(did_you_mean("lint", {}).empty());
  CHECK(did_you_mean(std::string(100'000, 'c'), commands).empty());
}

}  // namespace
}  // namespace ttrace::base
