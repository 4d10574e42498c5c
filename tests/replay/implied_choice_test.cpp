#include <limits>

#include "replay/routing/choices.h"
#include "replay/routing/scores.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::replay {
namespace {

class Given : public Scores {
 public:
  explicit Given(std::vector<std::vector<double>> rows) : rows_(std::move(rows)) {}
  Score of(std::uint64_t token, std::uint64_t expert) override { return {rows_[token][expert], 0}; }
  std::uint64_t bytes_read() const override { return 0; }

 private:
  std::vector<std::vector<double>> rows_;
};

using Rows = std::vector<std::vector<double>>;

Rows chosen(const Rows& scores, std::uint64_t number, Order order) {
  test::MemoryTrace trace;
  const trace::TensorEntry entry = test::make_entry("gate", {scores.size(), scores[0].size()});
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
  test::MemoryTrace trace;
  const trace::TensorEntry entry = test::make_entry("gate", {2, 3});
  Given before({{1, 2, 3}, {3, 2, 1}});
  Given after({{1, 2, 3}, {1, 2, 3}});
  const measure::TensorRef tensor(&trace, &entry);
  const Decision decision{implied_choice(tensor, before, 2, 3, 1, Order::kByNumber),
                          implied_choice(tensor, after, 2, 3, 1, Order::kByNumber),
                          Spelling::kIndices, 2, 3};
  CHECK(flipped_tokens(decision) == std::vector<std::uint64_t>{1});
}

}  // namespace
}  // namespace ttrace::replay
