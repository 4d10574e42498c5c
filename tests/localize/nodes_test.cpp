#include "localize/nodes.h"

#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::localize {
namespace {

TEST_CASE("holders are the coordinates that hold the tensor, however that is said") {
  trace::TensorEntry entry = test::make_entry("a", {2});
  const auto holders = [&entry] { return rank_group(*layout::view_of(entry)); };
  CHECK(holders().empty());
  entry.placements = {{"tp", trace::Shard{0, std::nullopt}}};
  CHECK(holders().empty());
  entry.held_at = {{"pp", {1}}};
  const std::string held = holders();
  CHECK(held == "/pp:1,");
  entry.held_at.clear();
  entry.placements = {{"pp", trace::Only{1}}};
  CHECK(holders() == held);
  entry.mesh = "expert";
  CHECK(holders() == "expert/pp:1,");
}

}  // namespace
}  // namespace ttrace::localize
