#include "localize/name_suggestions.h"

#include "base/text.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::localize {
namespace {

using comparison::TensorComparison;
using judge::Outcome;
using trace::Kind;
using Names = std::vector<std::string>;

TensorComparison result_of(const std::string& name, Outcome outcome, tensor::Shape shape = {4},
                           Kind kind = Kind::kParam) {
  TensorComparison result;
  result.key = test::make_key(name, kind);
  result.outcome = outcome;
  result.shape = std::move(shape);
  return result;
}

std::vector<Names> nearest_of(std::vector<TensorComparison> results) {
  find_nearest_names(results);
  std::vector<Names> nearest;
  for (const TensorComparison& result : results) nearest.push_back(result.nearest);
  return nearest;
}

TEST_CASE("what only one side has is told what the other may call it, the most alike first") {
  CHECK(
      nearest_of({result_of("layers.0.fc", Outcome::kMissing), result_of("h.0.ln", Outcome::kExtra),
                  result_of("h.layers.0.fc1", Outcome::kExtra)}) ==
      std::vector<Names>{{"h.layers.0.fc1", "h.0.ln"}, {"layers.0.fc"}, {"layers.0.fc"}});
}

TEST_CASE("only tensors of the same shape and kind can be meant") {
  const std::vector<TensorComparison> results{
      result_of("a", Outcome::kMissing, {4, 2}), result_of("b", Outcome::kExtra, {2, 4}),
      result_of("c", Outcome::kExtra, {4, 2}, Kind::kMainGrad),
      result_of("d", Outcome::kExtra, {4, 2})};
  CHECK(nearest_of(results) == std::vector<Names>{{"d"}, {}, {}, {"a"}});
}

TEST_CASE("tensors that both sides have are nobody's other name") {
  CHECK(nearest_of({result_of("a", Outcome::kMissing), result_of("aa", Outcome::kMatch),
                    result_of("ab", Outcome::kDiverged), result_of("ac", Outcome::kSkippedByRule),
                    result_of("ad", Outcome::kIncomparable)}) == std::vector<Names>(5));
  CHECK(nearest_of({result_of("a", Outcome::kExtra), result_of("b", Outcome::kExtra)}) ==
        std::vector<Names>(2));
  CHECK(nearest_of({}).empty());
}

TEST_CASE("at most three names are given, each once") {
  std::vector<TensorComparison> results{result_of("w", Outcome::kMissing)};
  for (const char* name : {"w1", "w2", "w3", "w4"}) {
    results.push_back(result_of(name, Outcome::kExtra));
    results.push_back(result_of(name, Outcome::kExtra));
    results.back().key.step = 1;
  }
  CHECK(nearest_of(results)[0] == Names{"w1", "w2", "w3"});
}

TEST_CASE("a name of several steps and micro-batches has the same answer everywhere") {
  std::vector<TensorComparison> results{result_of("a", Outcome::kMissing),
                                        result_of("a", Outcome::kMissing),
                                        result_of("b", Outcome::kExtra)};
  results[1].key.microbatch = 1;
  CHECK(nearest_of(results) == std::vector<Names>{{"b"}, {"b"}, {"a"}});
}

TEST_CASE("two whole models are not compared name by name") {
  std::vector<TensorComparison> results;
  for (int i = 0; i < 1000; ++i) {
    results.push_back(result_of(base::concat("model.layers.", i), Outcome::kMissing));
    results.push_back(result_of(base::concat("decoder.layers.", i), Outcome::kExtra));
  }
  const auto nearest = nearest_of(results);
  CHECK(nearest[0].at(0) == "decoder.layers.0");
  CHECK(nearest.back().empty());
}

}  // namespace
}  // namespace ttrace::localize
