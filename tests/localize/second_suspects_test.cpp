#include "localize/second_suspects.h"

#include "localize/frontier.h"
#include "support/catch.h"

namespace ttrace::localize::second_suspects_test {
namespace {

FlowNode node(const std::string& name, trace::Kind kind = trace::Kind::kOutput) {
  FlowNode made;
  made.key.kind = kind;
  made.key.name = name;
  return made;
}

using Names = std::vector<std::string>;

// a -> b -> c, and d from a and c.
struct Chain {
  std::vector<FlowNode> nodes{node("a"), node("b"), node("c"), node("d")};
  Dataflow flow{{{}, {0}, {1}, {0, 2}}, {0, 1, 2, 3}, true};
  std::vector<judge::Outcome> outcomes{4, judge::Outcome::kDiverged};
  UsedShares used{1.5, 2.0, 4.0, 8.0};
  std::vector<bool> on_frontier{true, false, false, false};

  // Their names; those of gradients end in "'".
  Names suspects() const {
    Names found;
    for (const answer::Suspect& one : second_suspects(nodes, flow, outcomes, used, on_frontier)) {
      found.push_back(one.key.name + (one.key.kind == trace::Kind::kGradOutput ? "'" : ""));
    }
    return found;
  }
};

TEST_CASE("an error that is carried is no suspect") { CHECK(Chain().suspects().empty()); }

TEST_CASE("a jump is told with both numbers, once") {
  Chain chain;
  chain.used = {1.5, 2.0, 5000.0, 20000.0};
  const auto found =
      second_suspects(chain.nodes, chain.flow, chain.outcomes, chain.used, chain.on_frontier);
  REQUIRE(found.size() == 1);
  CHECK(found[0].key.name == "c");
  CHECK(found[0].used == 5000);
  CHECK(found[0].used_before == 2);
  REQUIRE(found[0].largest);
  CHECK(found[0].largest->name == "b");
}

TEST_CASE("what is within its tolerance counts as at its limit") {
  Chain chain;
  chain.outcomes[1] = judge::Outcome::kMatch;
  chain.used[1] = 1e-6;
  chain.used[2] = 29;
  CHECK(chain.suspects().empty());
  chain.used[2] = 31;
  CHECK(chain.suspects() == Names{"c"});
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

TEST_CASE("a gradient that follows from the loss is held against the values behind it") {
  // a -> head -> loss -> the gradient of a value.
  Chain chain;
  chain.nodes = {node("a"), node("head"), node("loss", trace::Kind::kLoss),
                 node("head", trace::Kind::kGradOutput)};
  chain.flow.depends_on = {{}, {0}, {1}, {2}};
  chain.used = {1.5, 400.0, 2.0, 900.0};
  CHECK(chain.suspects() == Names{"head"});
  chain.used = {1.5, 40.0, 2.0, 9000.0};
  CHECK(chain.suspects() == Names{"head'"});
  // Of another value nothing tells what its gradient is made of.
  chain.nodes[3] = node("gate", trace::Kind::kGradOutput);
  CHECK(chain.suspects().empty());
}

TEST_CASE("a gradient that comes back through a module is held against that module's inputs") {
  // The choice of experts of a mixture, its gradient, and that of what is computed inside it.
  Chain chain;
  chain.nodes = {node("experts[index]", trace::Kind::kInput), node("experts"),
                 node("experts", trace::Kind::kGradOutput),
                 node("experts.act", trace::Kind::kGradOutput)};
  chain.flow.depends_on = {{}, {0}, {1}, {2}};
  chain.used = {1.5, 2.0, 2.0, 900.0};
  CHECK(chain.suspects() == Names{"experts.act'"});
  chain.used = {800.0, 2.0, 2.0, 900.0};
  CHECK(chain.suspects().empty());
  chain.used = {std::nullopt, 2.0, 2.0, 900.0};  // integers that differ
  CHECK(chain.suspects().empty());
}

}  // namespace
}  // namespace ttrace::localize::second_suspects_test
