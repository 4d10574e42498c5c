#include "replay/routing/scores.h"

#include "replay/tables.h"
#include "support/catch.h"

namespace ttrace::replay {
namespace {

using test::Held;

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
}  // namespace ttrace::replay
