#include "localize/two_runs.h"

namespace ttrace::localize::untied_test {
namespace {

using test::make_entry;
using test::minus;
using test::random_values;
using test::TwoRuns;
using test::Values;
using trace::Kind;

const Values kEmbedding = random_values(32, 80);  // the gradient as the input
const Values kHead = random_values(32, 81);       // as the output projection

Values both() {
  Values sum = kEmbedding;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += kHead[i];
  return sum;
}

std::vector<Cause> causes(const Values& reference, const Values& candidate, bool candidate_has_head,
                          const Values& head = kHead) {
  TwoRuns runs;
  runs.put(make_entry("embed", {8, 4}, Kind::kMainGrad), reference, candidate);
  auto& owner = candidate_has_head ? runs.candidate() : runs.reference();
  owner.put(make_entry("head", {8, 4}, Kind::kMainGrad), head);
  return find_untied(test::FindingInView(runs, "embed", Kind::kMainGrad).the_case());
}

TEST_CASE("a gradient that lacks that of a name of the candidate's own is named") {
  const std::vector<Cause> found = causes(both(), kEmbedding, true);
  REQUIRE(found.size() == 1);
  test::check_numbers(found[0]);
  CHECK(found[0].name == "untied");
  CHECK(found[0].evidence.find("with that of head, which the candidate alone has") == 0);
  CHECK(causes(both(), kEmbedding, true, random_values(32, 82)).empty());
  CHECK(causes(kEmbedding, both(), true).empty());
}

TEST_CASE("a gradient with that of a name that the candidate lacks is named") {
  const std::vector<Cause> found = causes(kEmbedding, both(), false);
  REQUIRE(found.size() == 1);
  test::check_numbers(found[0]);
  CHECK(found[0].evidence.find("and that of head, which the candidate lacks") != std::string::npos);
  CHECK(causes(kEmbedding, minus(kEmbedding, kHead), false).empty());
}

TEST_CASE("a finding of two runs with one tie is explained by it alone") {
  TwoRuns runs;
  runs.put(make_entry("embed", {8, 4}, Kind::kMainGrad), both(), kEmbedding);
  runs.candidate().put(make_entry("head", {8, 4}, Kind::kMainGrad), kHead);
  CHECK(runs.names() == test::Names{"untied"});
}

}  // namespace
}  // namespace ttrace::localize::untied_test
