#include "localize/dataflow.h"
#include "localize/tiny_model.h"
#include "support/catch.h"

namespace ttrace::localize {
namespace {

using test::make_node;
using trace::Kind;

Node at(std::uint64_t order, Node node) {
  node.order = order;
  return node;
}

TEST_CASE("a scalar comes after the last activation before it, of its own micro-batch") {
  std::vector<Node> nodes{
      at(0, make_node(Kind::kOutput, "a", 0)),    at(1, make_node(Kind::kScalar, "s", 0)),
      at(2, make_node(Kind::kOutput, "b", 0)),    at(3, make_node(Kind::kOutput, "c", 1)),
      at(4, make_node(Kind::kScalar, "t", 0)),    at(5, make_node(Kind::kScalar, "u")),
      at(6, make_node(Kind::kScalar, "v", 2)),    at(0, make_node(Kind::kScalar, "w", 0)),
      at(7, make_node(Kind::kParamGrad, "p", 0)), make_node(Kind::kScalar, "x", 0)};
  const auto before = last_before_scalars(nodes);
  CHECK(before[1] == std::optional<std::size_t>(0));
  CHECK(before[4] == std::optional<std::size_t>(2));
  CHECK(before[5] == std::optional<std::size_t>(3));
  for (const std::size_t i : {0, 2, 3, 6, 7, 8, 9}) CHECK_FALSE(before[i]);
}

TEST_CASE("a scalar's order counts on its own ranks and in its own step alone") {
  std::vector<Node> nodes{at(0, make_node(Kind::kOutput, "a", 0)),
                          at(1, make_node(Kind::kScalar, "s", 0)),
                          at(1, make_node(Kind::kScalar, "s", 0, 1))};
  nodes[1].holders = "/pp:1,";
  const auto before = last_before_scalars(nodes);
  CHECK_FALSE(before[1]);
  CHECK_FALSE(before[2]);
}

TEST_CASE("a scalar is downstream of what went wrong before it") {
  std::vector<Node> nodes = test::tiny_nodes(1);
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].order = i;
  nodes.push_back(at(nodes.size(), make_node(Kind::kScalar, "lm_loss_sum", 0)));
  const Dataflow flow = build_dataflow(nodes, test::tiny_modules());
  CHECK(flow.depends_on.back().size() == 1);
}

}  // namespace
}  // namespace ttrace::localize
