#include "localize/frontier.h"
#include "localize/tiny_model.h"
#include "support/catch.h"

namespace ttrace::localize {
namespace {

using test::make_node;
using trace::Kind;

TEST_CASE("parameters and inputs come first, then copies that disagree, step by step") {
  const std::vector<Node> nodes{make_node(Kind::kOutput, "b", 0),
                                make_node(Kind::kMainGrad, "w"),
                                make_node(Kind::kInput, "(model)", 0),
                                make_node(Kind::kParam, "w"),
                                make_node(Kind::kOutput, "a", 0),
                                make_node(Kind::kInput, "a", 0),
                                make_node(Kind::kParam, "w", std::nullopt, 1)};
  std::vector<judge::Outcome> outcomes(nodes.size(), judge::Outcome::kDiverged);
  outcomes[1] = judge::Outcome::kReplicaConflict;
  outcomes[3] = judge::Outcome::kReplicaConflict;
  std::vector<Finding> findings;
  for (const std::size_t first : {6, 0, 1, 2, 3, 4, 5}) {
    findings.push_back({first, {first}, "", {}});
  }
  order_findings(nodes, outcomes, findings);
  std::vector<std::size_t> firsts;
  for (const Finding& finding : findings) firsts.push_back(finding.first);
  CHECK(firsts == std::vector<std::size_t>{2, 3, 1, 0, 4, 5, 6});
}

TEST_CASE("no findings stay none") {
  std::vector<Finding> none;
  order_findings({}, {}, none);
  CHECK(none.empty());
}

}  // namespace
}  // namespace ttrace::localize
