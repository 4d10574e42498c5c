#include "localize/frontier.h"

#include <algorithm>
#include <random>

#include "localize/tiny_model.h"
#include "support/catch.h"

namespace ttrace::localize::frontier_test {
namespace {

using test::Labels;
using trace::Kind;
using Names = std::vector<std::string>;
using test::make_node;

// The tiny model with an outcome for every tensor.
class Run {
 public:
  explicit Run(std::vector<FlowNode> nodes = test::tiny_nodes(1),
               std::vector<trace::Module> modules = test::tiny_modules())
      : nodes_(std::move(nodes)),
        flow_(build_dataflow(nodes_, modules)),
        outcomes_(nodes_.size(), judge::Outcome::kMatch) {}

  void set(const std::string& name, judge::Outcome outcome) {
    outcomes_[test::find_node(nodes_, name)] = outcome;
  }
  template <typename Where>
  void set_where(judge::Outcome outcome, Where where) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (where(nodes_[i].key)) outcomes_[i] = outcome;
    }
  }
  // Everything that depends on the tensor, as a bug that nothing absorbs would have it.
  void spoil_from(const std::string& name, judge::Outcome first = judge::Outcome::kDiverged) {
    std::vector<bool> spoiled(nodes_.size(), false);
    spoiled[test::find_node(nodes_, name)] = true;
    for (const std::size_t node : flow_.topological_order) {
      for (const std::size_t d : flow_.depends_on[node]) {
        if (spoiled[d]) spoiled[node] = true;
      }
      if (spoiled[node]) outcomes_[node] = judge::Outcome::kDiverged;
    }
    set(name, first);
  }

  // Of those that match: `where` they are the reference's bit for bit.
  template <typename Where>
  void set_equal_bits(Where where) {
    equal_bits_.resize(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      equal_bits_[i] = outcomes_[i] == judge::Outcome::kMatch && where(nodes_[i].key);
    }
  }

  Frontier frontier() const { return find_frontier(nodes_, flow_, outcomes_, equal_bits_); }
  std::vector<std::string> firsts() const {
    std::vector<std::string> names;
    for (const comparison::ComparedFinding& finding : frontier().findings) {
      names.push_back(test::label(nodes_[finding.result]));
    }
    return names;
  }
  std::size_t bad() const {
    return static_cast<std::size_t>(
        std::count_if(outcomes_.begin(), outcomes_.end(), judge::is_bad));
  }
  const std::vector<FlowNode>& nodes() const { return nodes_; }

 private:
  std::vector<FlowNode> nodes_;
  Dataflow flow_;
  std::vector<judge::Outcome> outcomes_;
  std::vector<bool> equal_bits_;
};

TEST_CASE("a healthy run has no findings") {
  CHECK(Run().frontier().findings.empty());
  CHECK(Run().frontier().downstream == 0);
}

TEST_CASE("one bug is one finding, and all else that is bad is counted downstream") {
  Run run;
  run.spoil_from("output:layer.attn@0");
  CHECK(run.firsts() == Names{"output:layer.attn@0"});
  const Frontier frontier = run.frontier();
  CHECK(frontier.downstream == run.bad() - 1);
  CHECK(frontier.findings[0].downstream.size() == run.bad() - 1);
  CHECK(std::is_sorted(frontier.findings[0].downstream.begin(),
                       frontier.findings[0].downstream.end()));
  CHECK(frontier.findings[0].members == std::vector{frontier.findings[0].result});
  CHECK(frontier.findings[0].one_sided_group.empty());
}

TEST_CASE("two outputs of one module are two findings") {
  Run run;
  run.set("output:layer.attn@0", judge::Outcome::kDiverged);
  run.set("output:layer.attn[1]@0", judge::Outcome::kDiverged);
  run.set("output:layer.mlp@0", judge::Outcome::kDiverged);
  CHECK(run.firsts() == Names{"output:layer.attn@0", "output:layer.attn[1]@0"});
  CHECK(run.frontier().downstream == 1);
}

TEST_CASE("two independent bugs are two findings in the order of the data flow") {
  Run run;
  run.set("main_grad:layer.norm2.weight", judge::Outcome::kDiverged);
  run.set("main_grad:embed.weight", judge::Outcome::kDiverged);
  run.set("grad_norm:grad_norm", judge::Outcome::kDiverged);
  run.set("param_after_step:embed.weight", judge::Outcome::kDiverged);
  CHECK(run.firsts() == Names{"main_grad:embed.weight", "main_grad:layer.norm2.weight"});
  CHECK(run.frontier().downstream == 2);
  const Frontier frontier = run.frontier();
  CHECK(test::labels(run.nodes(), frontier.findings[0].downstream) ==
        Labels{"grad_norm:grad_norm", "param_after_step:embed.weight"});
}

TEST_CASE("a tensor that matches does not break the chain from a bad one to another") {
  Run run;
  run.set("output:embed@0", judge::Outcome::kDiverged);
  run.set("loss:loss@0", judge::Outcome::kDiverged);
  CHECK(run.firsts() == Names{"output:embed@0"});
  CHECK(run.frontier().downstream == 1);
}

TEST_CASE("outcomes that are not bad start nothing") {
  Run run;
  run.set("output:embed@0", judge::Outcome::kUnreadable);
  run.set("output:layer.norm1@0", judge::Outcome::kNotJudged);
  run.set("output:layer.attn@0", judge::Outcome::kBelowNoiseFloor);
  run.set("output:head@0", judge::Outcome::kSkippedByRule);
  CHECK(run.frontier().findings.empty());
  run.set("loss:loss@0", judge::Outcome::kDiverged);
  CHECK(run.firsts() == Names{"loss:loss@0"});
}

TEST_CASE("a tensor of another shape is a finding, and what follows from it is downstream") {
  Run run;
  run.set("output:layer.norm1@0", judge::Outcome::kIncomparable);
  run.set("input:layer.attn@0", judge::Outcome::kNotRecorded);
  run.set("output:layer.attn@0", judge::Outcome::kDiverged);
  CHECK(run.firsts() == Names{"output:layer.norm1@0"});
  CHECK(run.frontier().downstream == 1);
}

TEST_CASE("what agrees behind another shape lets nothing through") {
  Run run;
  run.set("output:layer.norm1@0", judge::Outcome::kIncomparable);
  run.set("loss:loss@0", judge::Outcome::kDiverged);
  CHECK(run.firsts() == Names{"output:layer.norm1@0", "loss:loss@0"});
  CHECK(run.frontier().downstream == 0);
}

TEST_CASE("nothing follows from what the candidate alone has, and it is told last") {
  Run run;
  run.set("output:embed@0", judge::Outcome::kExtra);
  CHECK(run.firsts() == Names{"output:embed@0"});
  run.spoil_from("output:layer.mlp@0", judge::Outcome::kDiverged);
  CHECK(run.firsts() == Names{"output:layer.mlp@0", "output:embed@0"});
  CHECK(run.frontier().findings[1].downstream.empty());
}

TEST_CASE("a replica conflict is a divergence") {
  Run run;
  run.spoil_from("main_grad:layer.norm1.weight", judge::Outcome::kReplicaConflict);
  CHECK(run.firsts() == Names{"main_grad:layer.norm1.weight"});
}

TEST_CASE("other data are one finding, whichever modules are handed them") {
  Run run;
  for (const char* name : {"input:(model)@0", "input:embed@0", "input:layer.mlp[1]@0"}) {
    run.set(name, judge::Outcome::kDiverged);
  }
  CHECK(run.firsts() == Names{"input:(model)@0"});
}

TEST_CASE("copies that disagree are told before what does not follow from them") {
  Run run;
  run.set("main_grad:embed.weight", judge::Outcome::kDiverged);
  run.set("main_grad:layer.norm2.weight", judge::Outcome::kReplicaConflict);
  CHECK(run.firsts() == Names{"main_grad:layer.norm2.weight", "main_grad:embed.weight"});
}

TEST_CASE("a missing layer is one finding with all its tensors") {
  Run run;
  run.set_where(judge::Outcome::kMissing, [](const trace::TensorKey& key) {
    return key.name == "layer" || key.name.find("layer.") == 0;
  });
  run.set("output:head@0", judge::Outcome::kDiverged);
  const Frontier frontier = run.frontier();
  REQUIRE(frontier.findings.size() == 1);
  CHECK(frontier.findings[0].one_sided_group == "layer (step 0)");
  CHECK(frontier.findings[0].members.size() == run.bad() - 1);
  CHECK(frontier.downstream == 1);
  CHECK(test::labels(run.nodes(), frontier.findings[0].downstream) == Labels{"output:head@0"});
}

TEST_CASE("a missing kind is one finding") {
  Run run;
  run.set_where(judge::Outcome::kMissing,
                [](const trace::TensorKey& key) { return key.kind == Kind::kGradOutput; });
  const Frontier frontier = run.frontier();
  REQUIRE(frontier.findings.size() == 1);
  CHECK(frontier.findings[0].one_sided_group == "every grad_output of step 0");
  CHECK(frontier.downstream == 0);
}

TEST_CASE("a missing step is one finding") {
  Run run(test::tiny_nodes(1, 2));
  run.set_where(judge::Outcome::kMissing,
                [](const trace::TensorKey& key) { return key.step == 1; });
  const Frontier frontier = run.frontier();
  REQUIRE(frontier.findings.size() == 1);
  CHECK(frontier.findings[0].one_sided_group == "step 1");
  CHECK(frontier.findings[0].members.size() == run.nodes().size() / 2);
}

TEST_CASE("a divergence and a missing layer elsewhere are two findings") {
  Run run;
  run.set("output:embed@0", judge::Outcome::kDiverged);
  run.set("param_grad:layer.mlp.weight@0", judge::Outcome::kMissing);
  run.set("param:layer.mlp.weight", judge::Outcome::kMissing);
  const Frontier frontier = run.frontier();
  REQUIRE(frontier.findings.size() == 2);
  CHECK(run.firsts() == Names{"param:layer.mlp.weight", "output:embed@0"});
}

TEST_CASE("what equal bits were computed from reaches nothing behind them") {
  Run run;
  run.spoil_from("output:layer.attn@0");
  run.set("output:layer@0", judge::Outcome::kMatch);
  CHECK(run.firsts() == Names{"output:layer.attn@0"});
  run.set_equal_bits([](const trace::TensorKey& key) { return key.name == "layer"; });
  const Names firsts = run.firsts();
  CHECK(std::find(firsts.begin(), firsts.end(), "input:head@0") != firsts.end());
}

TEST_CASE("a module whose input is equal is not reached by what that was computed from") {
  // A plan gave the module the same input in both runs.
  Run run;
  run.set("output:layer.norm1@0", judge::Outcome::kDiverged);
  run.set("output:layer.attn@0", judge::Outcome::kDiverged);
  CHECK(run.firsts() == Names{"output:layer.norm1@0"});
  run.set_equal_bits([](const trace::TensorKey& key) {
    return key.kind == Kind::kInput && key.name == "layer.attn";
  });
  CHECK(run.firsts() == Names{"output:layer.norm1@0", "output:layer.attn@0"});
}

TEST_CASE("copies that differ are not explained by wrong values before them, only by such copies") {
  Run run;
  run.spoil_from("output:layer.attn@0");
  run.set("main_grad:layer.norm1.weight", judge::Outcome::kReplicaConflict);
  CHECK(run.firsts() == Names{"main_grad:layer.norm1.weight", "output:layer.attn@0"});
  const Frontier frontier = run.frontier();
  CHECK(frontier.downstream == run.bad() - 2);
  CHECK(frontier.findings[1].downstream.size() == run.bad() - 2);
  run.set("output:layer.attn@0", judge::Outcome::kReplicaConflict);
  CHECK(run.firsts() == Names{"output:layer.attn@0"});
}

TEST_CASE("property: every bad tensor is in a finding or downstream of one, cycles or not") {
  std::mt19937 random(7);
  std::vector<trace::Module> cyclic = test::tiny_modules();
  cyclic[1].inputs = {"head", "layer.mlp"};
  cyclic[3].inputs = {"layer.norm1", "layer"};
  for (int round = 0; round < 200; ++round) {
    Run run(test::tiny_nodes(2, 2), round % 2 == 0 ? cyclic : test::tiny_modules());
    run.set_where(judge::Outcome::kDiverged, [&](const auto&) { return random() % 20 == 0; });
    run.set_where(judge::Outcome::kMissing, [&](const auto&) { return random() % 15 == 0; });
    if (round % 3 == 0) run.set_equal_bits([&](const auto&) { return random() % 4 == 0; });
    const Frontier frontier = run.frontier();
    std::set<std::size_t> told;
    std::size_t members = 0;
    for (const comparison::ComparedFinding& finding : frontier.findings) {
      members += finding.members.size();
      told.insert(finding.members.begin(), finding.members.end());
    }
    REQUIRE(told.size() == members);
    REQUIRE(frontier.downstream + members == run.bad());
    for (const comparison::ComparedFinding& finding : frontier.findings) {
      told.insert(finding.downstream.begin(), finding.downstream.end());
    }
    REQUIRE(told.size() == run.bad());
    REQUIRE(frontier.findings.empty() == (run.bad() == 0));
  }
}

TEST_CASE("parameters and inputs come first, then copies that disagree, step by step") {
  const std::vector<FlowNode> nodes{make_node(Kind::kOutput, "b", 0),
                                    make_node(Kind::kMainGrad, "w"),
                                    make_node(Kind::kInput, "(model)", 0),
                                    make_node(Kind::kParam, "w"),
                                    make_node(Kind::kOutput, "a", 0),
                                    make_node(Kind::kInput, "a", 0),
                                    make_node(Kind::kParam, "w", std::nullopt, 1)};
  std::vector<judge::Outcome> outcomes(nodes.size(), judge::Outcome::kDiverged);
  outcomes[1] = judge::Outcome::kReplicaConflict;
  outcomes[3] = judge::Outcome::kReplicaConflict;
  std::vector<comparison::ComparedFinding> findings;
  for (const std::size_t first : {6, 0, 1, 2, 3, 4, 5}) {
    findings.emplace_back().result = first;
  }
  order_findings(nodes, outcomes, findings);
  std::vector<std::size_t> firsts;
  for (const comparison::ComparedFinding& finding : findings) firsts.push_back(finding.result);
  CHECK(firsts == std::vector<std::size_t>{2, 3, 1, 0, 4, 5, 6});
}

TEST_CASE("no findings stay none") {
  std::vector<comparison::ComparedFinding> none;
  order_findings({}, {}, none);
  CHECK(none.empty());
}

TEST_CASE("a finding of its own stays one behind another, before the loss") {
  const std::vector<FlowNode> nodes = test::tiny_nodes(1);
  const Dataflow flow = build_dataflow(nodes, test::tiny_modules());
  std::vector<judge::Outcome> outcomes(nodes.size(), judge::Outcome::kMatch);
  std::vector<bool> own(nodes.size(), false);
  const std::size_t loss = test::find_node(nodes, "loss:loss@0");
  const std::size_t gradient = test::find_node(nodes, "main_grad:layer.mlp.weight");
  outcomes[loss] = judge::Outcome::kDiverged;
  outcomes[gradient] = judge::Outcome::kIncomparable;
  REQUIRE(find_frontier(nodes, flow, outcomes).findings.size() == 1);
  own[gradient] = true;
  const Frontier frontier = find_frontier(nodes, flow, outcomes, {}, own);
  REQUIRE(frontier.findings.size() == 2);
  CHECK(frontier.findings[0].result == gradient);
  CHECK(frontier.findings[1].result == loss);
  // A healthy tensor is none.
  outcomes[gradient] = judge::Outcome::kMatch;
  CHECK(find_frontier(nodes, flow, outcomes, {}, own).findings.size() == 1);
}

}  // namespace
}  // namespace ttrace::localize::frontier_test
