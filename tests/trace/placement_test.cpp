#include "trace/placement.h"

#include "support/catch.h"

namespace ttrace::trace {
namespace {

TEST_CASE("placements as people say them") {
  CHECK(to_string(Placement{Replicate{}}) == "replicate");
  CHECK(to_string(Placement{Shard{2, std::nullopt}}) == "shard 2");
  CHECK(to_string(Placement{Shard{0, {{3, 1}}}}) == "shard 0 (given sizes)");
  CHECK(to_string(Placement{Partial{Reduction::kSum}}) == "partial sum");
  CHECK(to_string(Placement{Partial{Reduction::kMean}}) == "partial mean");
  CHECK(to_string(Placement{Partial{Reduction::kMax}}) == "partial max");
  CHECK(to_string(Placement{Only{1}}) == "only 1");
}

TEST_CASE("placements are equal if all they say is") {
  CHECK(Placement{Shard{1, std::nullopt}} == Placement{Shard{1, std::nullopt}});
  CHECK_FALSE(Placement{Shard{1, std::nullopt}} == Placement{Shard{1, {{2, 2}}}});
  CHECK_FALSE(Placement{Partial{Reduction::kSum}} == Placement{Partial{Reduction::kMean}});
  CHECK_FALSE(Placement{Replicate{}} == Placement{Only{0}});
}

}  // namespace
}  // namespace ttrace::trace
