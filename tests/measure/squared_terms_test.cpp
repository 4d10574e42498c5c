#include "measure/squared_terms.h"

#include <limits>

#include "base/error.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::measure::squared_terms_test {
namespace {

using trace::Partial;
using trace::Reduction;

trace::TensorEntry terms(test::MemoryTrace& trace, Reduction reduction) {
  trace::TensorEntry entry = test::make_entry("x", {2, 2});
  entry.placements = {{"cp", Partial{reduction}}, {"tp", trace::Shard{0, {}}}};
  trace.put(entry, {0, 0, 0, 0});
  // Rank cp·2 + tp: the terms of each row cancel, but for one element.
  trace.put_shard(entry, 0, {3, 4});
  trace.put_shard(entry, 1, {1, 2});
  trace.put_shard(entry, 2, {-3, -4});
  trace.put_shard(entry, 3, {-1, std::numeric_limits<double>::infinity()});
  return entry;
}

TEST_CASE("terms that cancel are as large as they are, not as their sum") {
  test::MemoryTrace trace(test::make_mesh({{"cp", 2}, {"tp", 2}}));
  CHECK(squared_terms(trace, terms(trace, Reduction::kSum)) == 25 + 5 + 25 + 1);
  // Terms of a mean enter it halved.
  CHECK(squared_terms(trace, terms(trace, Reduction::kMean)) == (25 + 5 + 25 + 1) / 4.0);
}

TEST_CASE("replicas count once") {
  test::MemoryTrace trace(test::make_mesh({{"dp", 2}}));
  const trace::TensorEntry entry = test::make_entry("x", {2});
  trace.put(entry, {3, 4});
  CHECK(squared_terms(trace, entry) == 25);
}

TEST_CASE("a term that cannot be read is an error") {
  test::MemoryTrace trace(test::make_mesh({{"cp", 2}, {"tp", 2}}));
  const trace::TensorEntry entry = terms(trace, Reduction::kSum);
  trace.lose_rank(2);
  CHECK_THROWS_AS(squared_terms(trace, entry), base::InputError);
}

}  // namespace
}  // namespace ttrace::measure::squared_terms_test
