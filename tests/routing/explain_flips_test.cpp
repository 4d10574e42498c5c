#include "routing/explain_flips.h"

#include <limits>

#include "routing/tables.h"
#include "support/catch.h"

namespace ttrace::routing::explain_flips_test {
namespace {

using test::Held;
using test::Table;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The top two of every row.
Table choices(const Table& scores) {
  Table map;
  for (const auto& row : scores) {
    std::vector<double> chosen(row.size(), 0);
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::size_t above = 0;
      for (const double other : row) above += other > row[i] ? 1 : 0;
      chosen[i] = above < 2 ? 1 : 0;
    }
    map.push_back(std::move(chosen));
  }
  return map;
}

struct Case {
  Table reference;
  Table candidate;
  Table chosen_by_reference = choices(reference);
  Table chosen_by_candidate = choices(candidate);

  Explanation explained(NoiseSpread noise = NoiseSpread::kEven) const {
    const Held r(chosen_by_reference);
    const Held c(chosen_by_candidate);
    const Decision decision{r.ref(), c.ref(), Spelling::kMap, reference.size(),
                            reference[0].size()};
    const Held scores_r(reference);
    const Held scores_c(candidate);
    const auto by_reference = recorded_scores(scores_r.ref(), decision.tokens, 0x1p-23);
    const auto by_candidate = recorded_scores(scores_c.ref(), decision.tokens, 0x1p-23);
    const std::vector<std::uint64_t> flipped = flipped_tokens(decision);
    REQUIRE_FALSE(flipped.empty());
    return explain_flips(decision, flipped, *by_reference, *by_candidate, noise);
  }
};

bool says(const Explanation& explanation, const std::string& words) {
  return explanation.first && explanation.first->why.find(words) != std::string::npos;
}

TEST_CASE("a flip near a tie is explained") {
  const Explanation found =
      Case{{{4, 3.01, 3, 1}, {1, 2, 3, 4}}, {{4, 3, 3.01, 1}, {1, 2, 3, 4}}}.explained();
  CHECK(found.explained());
  CHECK(found.largest_gap == Approx(0.01));
  CHECK(found.noise == Approx(0.01 / 2));  // two of eight are 0.01 off
}

TEST_CASE("scores agree where their noise is small beside their spread") {
  const Explanation near = Case{{{4, 3.01, 3, 1}}, {{4, 3, 3.01, 1}}}.explained();
  CHECK(near.spread == Approx(1.089).epsilon(0.01));
  CHECK(near.scores_agree());
  const Explanation far = Case{{{4, 3.5, 3, 1}}, {{4, 3, 3.5, 1}}}.explained();
  CHECK(far.noise == Approx(0.3536).epsilon(0.01));
  CHECK_FALSE(far.scores_agree());
}

TEST_CASE("an exact tie may be broken either way") {
  Case tie{{{4, 3, 3, 1}, {1, 2, 3, 4}}, {{4, 3, 3, 1}, {1, 2, 3, 4}}};
  tie.chosen_by_reference[0] = {1, 1, 0, 0};
  tie.chosen_by_candidate[0] = {1, 0, 1, 0};
  CHECK(tie.explained().explained());
}

TEST_CASE("a choice against the run's own scores is not explained") {
  Case wrong{{{4, 3, 2, 1}, {1, 2, 3, 4}}, {{4, 3, 2, 1}, {1, 2, 3, 4}}};
  wrong.chosen_by_candidate[0] = {0, 1, 1, 0};
  const Explanation found = wrong.explained();
  CHECK(found.unexplained == 1);
  CHECK(found.first->token == 0);
  CHECK(says(found, "expert 2 for 0, against its own scores"));
}

TEST_CASE("a reference that does not choose by these scores explains nothing") {
  Case biased{{{4, 3, 2, 1}, {1, 2, 3, 4}}, {{4, 3, 2, 1}, {1, 2, 3, 4}}};
  biased.chosen_by_reference[0] = {0, 1, 1, 0};
  CHECK(says(biased.explained(), "the reference's own choice does not follow"));
}

TEST_CASE("a choice follows from the scores that it was made by and from no others") {
  const Table scores{{4, 3.01, 3, 1}, {1, 2, 3, 4}, {2, 2, 1, 0}};
  const Held chosen(choices(scores));
  const Decision decision{chosen.ref(), chosen.ref(), Spelling::kMap, 3, 4};
  const Held same(scores);
  CHECK(choice_follows(decision, *recorded_scores(same.ref(), 3, 0x1p-23)));
  const Held other({{4, 3.01, 3, 1}, {1, 2, 3, 4}, {2, 1, 2, 0}});
  CHECK_FALSE(choice_follows(decision, *recorded_scores(other.ref(), 3, 0x1p-23)));
}

TEST_CASE("another number of experts is not explained") {
  Case fewer{{{4, 3, 2, 1}, {1, 2, 3, 4}}, {{4, 3, 2, 1}, {1, 2, 3, 4}}};
  fewer.chosen_by_candidate[1] = {0, 0, 0, 1};
  CHECK(says(fewer.explained(), "not as many experts"));
}

TEST_CASE("a swap far from a tie is not explained though either run followed its scores") {
  Case far{{}, {}, {}, {}};
  for (int i = 0; i < 200; ++i) {
    far.reference.push_back({4, 3, 2, 1});
    far.candidate.push_back({4, 3 + 1e-4, 2, 1});
  }
  far.candidate[150] = {4, 2, 3, 1};
  far.chosen_by_reference = choices(far.reference);
  far.chosen_by_candidate = choices(far.candidate);
  const Explanation found = far.explained();
  CHECK(found.unexplained == 1);
  CHECK(found.first->token == 150);
  CHECK(says(found, "expert 2 for 1, which are 1 apart in the reference"));
  // Unless flips before it have moved some tokens' scores more than others'.
  CHECK(far.explained(NoiseSpread::kUneven).explained());
}

TEST_CASE("scores that a wrong factor made larger explain nothing") {
  Case scaled{{}, {}, {}, {}};
  for (int i = 0; i < 200; ++i) {
    const double x = 0.01 * (i % 40);
    scaled.reference.push_back({4 + x, 3 - x, 2.9 + x, 1});
    scaled.candidate = scaled.reference;
  }
  // The first and third expert's weights are 2 % too large.
  for (auto& row : scaled.candidate) row = {1.02 * row[0], row[1], 1.02 * row[2], row[3]};
  scaled.chosen_by_reference = choices(scaled.reference);
  scaled.chosen_by_candidate = choices(scaled.candidate);
  CHECK(says(scaled.explained(), "larger or smaller than the reference's as a whole"));
  // What flips before it moved may lie anywhere.
  CHECK(scaled.explained(NoiseSpread::kUneven).explained());
}

TEST_CASE("scores that are not finite explain nothing") {
  Case nan{{{4, 3.01, 3, 1}, {1, 2, 3, 4}}, {{4, 3, kNan, 1}, {1, 2, 3, 4}}};
  nan.chosen_by_candidate[0] = {1, 0, 1, 0};
  CHECK_FALSE(nan.explained().explained());
}

TEST_CASE("all flips of a router are examined and the unexplained ones counted") {
  Case rolled{{}, {}, {}, {}};
  for (int i = 0; i < 50; ++i) rolled.reference.push_back({4, 3, 2, 1.0 - i});
  rolled.candidate = rolled.reference;
  rolled.chosen_by_reference = choices(rolled.reference);
  for (int i = 0; i < 50; ++i) rolled.chosen_by_candidate.push_back({0, 1, 1, 0});
  CHECK(rolled.explained().unexplained == 50);
}

}  // namespace
}  // namespace ttrace::routing::explain_flips_test
