#include "verdict/second_suspects.h"

#include "support/catch.h"

namespace ttrace::verdict {
namespace {

// a -> b -> c, and d from a and c.
struct Chain {
  Dataflow flow{{{}, {0}, {1}, {0, 2}}, {0, 1, 2, 3}, true};
  std::vector<Outcome> outcomes{4, Outcome::kDiverged};
  UsedShares used{1.5, 2.0, 4.0, 8.0};
  std::vector<bool> on_frontier{true, false, false, false};

  std::vector<std::size_t> suspects() const {
    std::vector<std::size_t> nodes;
    for (const SecondSuspect& one : second_suspects(flow, outcomes, used, on_frontier)) {
      nodes.push_back(one.node);
    }
    return nodes;
  }
};

using Nodes = std::vector<std::size_t>;

TEST_CASE("an error that is carried is no suspect") { CHECK(Chain().suspects().empty()); }

TEST_CASE("a jump is told with both numbers, once") {
  Chain chain;
  chain.used = {1.5, 2.0, 5000.0, 20000.0};
  const auto found = second_suspects(chain.flow, chain.outcomes, chain.used, chain.on_frontier);
  REQUIRE(found.size() == 1);
  CHECK(found[0].node == 2);
  CHECK(found[0].used == 5000);
  CHECK(found[0].used_before == 2);
  CHECK(found[0].largest == std::optional<std::size_t>(1));
}

TEST_CASE("what is within its tolerance counts as at its limit") {
  Chain chain;
  chain.outcomes[1] = Outcome::kMatch;
  chain.used[1] = 1e-6;
  chain.used[2] = 29;
  CHECK(chain.suspects().empty());
  chain.used[2] = 31;
  CHECK(chain.suspects() == Nodes{2});
}

TEST_CASE("a tensor whose error is not known explains what follows from it") {
  Chain chain;
  chain.used = {1.5, std::nullopt, 5000.0, 20000.0};
  CHECK(chain.suspects().empty());
}

TEST_CASE("findings, matches and what depends on nothing are no suspects") {
  Chain chain;
  chain.used = {5000.0, 2e6, 4.0, 8.0};
  chain.on_frontier[1] = true;
  CHECK(chain.suspects().empty());
  chain.on_frontier = {false, true, false, false};
  CHECK(chain.suspects().empty());
}

}  // namespace
}  // namespace ttrace::verdict
