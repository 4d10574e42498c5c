#include "replay/routing/choices.h"
#include "replay/tables.h"
#include "support/catch.h"

namespace ttrace::replay {
namespace {

using test::Held;
using Numbers = std::vector<std::uint64_t>;
using Row = std::vector<double>;

TEST_CASE("a token flips where its row says something else") {
  const Held reference({{1, 0, 1}, {0, 1, 1}, {1, 1, 0}}, tensor::DType::kInt64);
  const Held candidate({{1, 0, 1}, {1, 0, 1}, {0, 1, 1}}, tensor::DType::kInt64);
  CHECK(flipped_tokens({reference.ref(), candidate.ref(), Spelling::kMap, 3, 3}) == Numbers{1, 2});
  // As weights only their zeros say what was chosen.
  const Held weights({{0.5, 0, 0.5}, {0, 0.1, 0.9}, {1, 1, 0}});
  const Held others({{0.4, 0, 0.6}, {0, 0.1, 0.9}, {1, 0, 1}});
  CHECK(flipped_tokens({weights.ref(), others.ref(), Spelling::kMap, 3, 3}) == Numbers{2});
  const Held numbers({{0, 2}, {1, 2}}, tensor::DType::kInt64);
  const Held swapped({{2, 0}, {1, 2}}, tensor::DType::kInt64);
  CHECK(flipped_tokens({numbers.ref(), swapped.ref(), Spelling::kIndices, 2, 3}) == Numbers{0});
}

TEST_CASE("the chosen experts of a row") {
  CHECK(experts_of(Row{0, 0.5, 0, -1}, Spelling::kMap, 4) == Numbers{1, 3});
  CHECK(experts_of(Row{3, 0}, Spelling::kIndices, 4) == Numbers{0, 3});
  CHECK_FALSE(experts_of(Row{3, 3}, Spelling::kIndices, 4));
  CHECK_FALSE(experts_of(Row{4, 0}, Spelling::kIndices, 4));
  CHECK_FALSE(experts_of(Row{-1, 0}, Spelling::kIndices, 4));
}

TEST_CASE("which experts a token left and joined") {
  const auto change = moved(Row{1, 1, 0, 0}, Row{1, 0, 0, 1}, Spelling::kMap, 4);
  REQUIRE(change);
  CHECK(change->left == Numbers{1});
  CHECK(change->joined == Numbers{3});
  CHECK_FALSE(moved(Row{1, 1, 0, 0}, Row{1, 0, 0, 0}, Spelling::kMap, 4));
  CHECK_FALSE(moved(Row{1, 2}, Row{1, 7}, Spelling::kIndices, 4));
  const auto indices = moved(Row{1, 2}, Row{2, 3}, Spelling::kIndices, 4);
  REQUIRE(indices);
  CHECK(indices->left == Numbers{1});
  CHECK(indices->joined == Numbers{3});
}

TEST_CASE("experts in another order are those out of their place") {
  const auto change = moved(Row{1, 2, 0}, Row{2, 1, 0}, Spelling::kIndices, 4);
  REQUIRE(change);
  CHECK(change->left == Numbers{1, 2});
  CHECK(change->joined == Numbers{2, 1});
}

}  // namespace
}  // namespace ttrace::replay
