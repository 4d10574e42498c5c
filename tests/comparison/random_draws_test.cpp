#include "comparison/random_draws.h"

#include "engine/compare_traces.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::comparison::random_draws_test {
namespace {

using judge::Outcome;
using test::make_entry;
using test::make_key;
using test::MemoryTrace;
using trace::Kind;

CompareReport compared(double drawn, double error) {
  const auto run_of = [](double number, double result) {
    MemoryTrace made;
    made.put(make_entry("loss", {}, Kind::kLoss), {result});
    made.put(make_entry("drop", {2}), {result, 2});
    made.put(make_entry("drop.(random)", {2}, Kind::kScalar), {number, 0.5});
    return made;
  };
  const MemoryTrace reference = run_of(0.25, 1);
  const MemoryTrace candidate = run_of(drawn, 1 + error);
  return engine::compare_traces(reference, candidate, {}, engine::CompareOptions{{}, 1, {}});
}

TEST_CASE("random numbers have a name of their own") {
  CHECK(is_random_draw(make_key("(random)", Kind::kScalar)));
  CHECK(is_random_draw(make_key("a.b.(random)", Kind::kScalar)));
  CHECK_FALSE(is_random_draw(make_key("a.b.(random)", Kind::kOutput)));
  CHECK_FALSE(is_random_draw(make_key("a.random", Kind::kScalar)));
}

TEST_CASE("runs that drew other numbers to no effect match") {
  const CompareReport out = compared(0.75, 0);
  CHECK(out.verdict == answer::Verdict::kRight);
  CHECK(out.counts.at(Outcome::kNotJudged) == 1);
}

TEST_CASE("where other numbers have an effect, that is what differs") {
  const CompareReport out = compared(0.75, 1);
  CHECK(out.verdict == answer::Verdict::kWrong);
  REQUIRE_FALSE(out.findings.empty());
  CHECK(out.results[out.findings[0].result].key.name == "drop");
}

TEST_CASE("draws of one run alone, or of another shape, are not judged") {
  MemoryTrace with;
  MemoryTrace without;
  MemoryTrace other;
  for (MemoryTrace* made : {&with, &without, &other}) {
    made->put(make_entry("loss", {}, Kind::kLoss), {1});
    made->put(make_entry("drop", {2}), {1, 2});
  }
  with.put(make_entry("drop.(random)", {2}, Kind::kScalar), {0.25, 0.5});
  other.put(make_entry("drop.(random)", {1}, Kind::kScalar), {0.25});
  const engine::CompareOptions options{{}, 1, {}};
  for (const auto& [reference, candidate] :
       {std::pair(&with, &without), {&without, &with}, {&with, &other}}) {
    const CompareReport out = engine::compare_traces(*reference, *candidate, {}, options);
    CHECK(out.verdict == answer::Verdict::kRight);
    CHECK(out.counts.at(Outcome::kNotJudged) == 1);
  }
}

TEST_CASE("the same numbers match") { CHECK(compared(0.25, 0).counts.at(Outcome::kMatch) == 3); }

}  // namespace
}  // namespace ttrace::comparison::random_draws_test
