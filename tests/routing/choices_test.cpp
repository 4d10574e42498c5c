#include "routing/choices.h"

#include <limits>

#include "routing/tables.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::routing::choices_test {
namespace {

using Rows = std::vector<std::vector<double>>;
using test::Held;
using Numbers = std::vector<std::uint64_t>;
using Row = std::vector<double>;

class Given : public Scores {
 public:
  explicit Given(std::vector<std::vector<double>> rows) : rows_(std::move(rows)) {}
  Score of(std::uint64_t token, std::uint64_t expert) override { return {rows_[token][expert], 0}; }
  std::uint64_t bytes_read() const override { return 0; }

 private:
  std::vector<std::vector<double>> rows_;
};

Rows chosen(const Rows& scores, std::uint64_t number, Order order) {
  ttrace::test::MemoryTrace trace;
  const trace::TensorEntry entry =
      ttrace::test::make_entry("gate", {scores.size(), scores[0].size()});
  Given given(scores);
  const measure::TensorRef choice =
      implied_choice({&trace, &entry}, given, scores.size(), scores[0].size(), number, order);
  TokenRows rows(choice, scores.size());
  Rows found;
  for (std::size_t token = 0; token < scores.size(); ++token) {
    const auto row = rows.row(token);
    found.emplace_back(row.begin(), row.end());
  }
  return found;
}

TEST_CASE("the experts with the highest scores are chosen") {
  const Rows scores{{0.1, 3, 2, -1}, {-5, -7, -6, -4}};
  CHECK(chosen(scores, 2, Order::kByScore) == Rows{{1, 2}, {3, 0}});
  CHECK(chosen(scores, 2, Order::kByNumber) == Rows{{1, 2}, {0, 3}});
  CHECK(chosen(scores, 4, Order::kByScore) == Rows{{1, 2, 0, 3}, {3, 0, 2, 1}});
}

TEST_CASE("of equal scores the lower number is better") {
  CHECK(chosen({{1, 2, 2, 2}}, 2, Order::kByScore) == Rows{{1, 2}});
}

TEST_CASE("tokens whose choice differs are found in it") {
  ttrace::test::MemoryTrace trace;
  const trace::TensorEntry entry = ttrace::test::make_entry("gate", {2, 3});
  Given before({{1, 2, 3}, {3, 2, 1}});
  Given after({{1, 2, 3}, {1, 2, 3}});
  const measure::TensorRef tensor(&trace, &entry);
  const Decision decision{implied_choice(tensor, before, 2, 3, 1, Order::kByNumber),
                          implied_choice(tensor, after, 2, 3, 1, Order::kByNumber),
                          Spelling::kIndices, 2, 3};
  CHECK(flipped_tokens(decision) == std::vector<std::uint64_t>{1});
}

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

TEST_CASE("recorded scores are what is recorded, with an ε of rounding") {
  const Held table({{1, -4}, {3, 8}});
  const auto scores = recorded_scores(table.ref(), 2, 0.25);
  CHECK(scores->of(0, 1).value == -4);
  CHECK(scores->of(0, 1).rounding == 1 + 0.0625);
  CHECK(scores->of(1, 0).value == 3);
  CHECK(scores->bytes_read() == 4 * sizeof(double));
}

TEST_CASE("linear scores are made again from input, weight and bias") {
  const Held input({{1, 2, 3}, {-1, 0, 1}});
  const Held weight({{1, 1, 1}, {2, 0, -2}});
  const auto plain = linear_scores(input.ref(), weight.ref(), std::nullopt, 2, 0);
  CHECK(plain->of(0, 0).value == 6);
  CHECK(plain->of(0, 1).value == -4);
  CHECK(plain->of(1, 1).value == -4);
  CHECK(plain->of(0, 1).rounding == 4 * 0x1p-23 * 8);
  const Held bias({{10}, {20}});
  const auto shifted = linear_scores(input.ref(), weight.ref(), bias.ref(), 2, 0.5);
  CHECK(shifted->of(1, 0).value == 10);
  CHECK(shifted->of(1, 1).value == 16);
  CHECK(shifted->of(1, 0).rounding == 5 + 0.125 + 4 * 0x1p-23 * 2);
}

}  // namespace
}  // namespace ttrace::routing::choices_test
