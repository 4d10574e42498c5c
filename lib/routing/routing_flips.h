// Tokens that went to other experts near a tie are not a bug: what their choice reaches is judged
// without them, or not at all. The method: lib/localize/README.md.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comparison/measure_pairs.h"
#include "comparison/result.h"
#include "judge/calibration.h"
#include "localize/dataflow.h"
#include "measure/backend.h"
#include "routing/choices.h"

namespace ttrace::routing {

struct Router {
  Decision decision;
  std::vector<std::uint64_t> flipped;  // tokens, at least one
  std::vector<std::size_t> judged_by;  // pairs that the scores are made of
  std::string scores;                  // describes them
  bool implied = false;                // the choice was not recorded: it follows from the scores
  std::unique_ptr<Scores> reference;
  std::unique_ptr<Scores> candidate;
};

// Finds routers among the outputs of modules.
class Routers {
 public:
  // All must outlive it.
  Routers(const trace::Source& reference, const trace::Source& candidate,
          const std::vector<comparison::TensorComparison>& results);
  ~Routers();

  // Returns pair i as the decision of a router that chose otherwise for some tokens. A decision is
  //  - an output of bools or integers: a column for every expert, or the experts' numbers;
  //  - where its module has none, an output of floating-point numbers with a column for every
  //    expert, zero where it was not chosen, as many chosen for every token;
  // It has diverged (the second kind may also match, if the module is called a router or gate), and
  // there are scores for it: another output of the module, an output of a module inside it, or an
  // input of it, with a column for every expert; or its input and a parameter "<module>.weight"
  // with a row for every expert. If a router (by its name) recorded no decision, its scores imply
  // one. Throws an input error if a shard cannot be read.
  std::optional<Router> router_at(std::size_t i) const;

 private:
  class Finder;
  std::unique_ptr<const Finder> finder_;
};

struct RoutingInput {
  const trace::Source& reference;
  const trace::Source& candidate;
  const std::vector<localize::FlowNode>& nodes;  // node i is out.results[i]
  const localize::Dataflow& flow;
  const std::vector<trace::Module>& modules;
  const comparison::NoiseSource& noise;
  const judge::Policy& rules;
  std::size_t most_slices;
  const measure::ExecutionContext& execution;
};

// Goes through the routers whose choice diverged, in the order of the data flow. If their scores
// match and every flip is near a tie, the choice is a `routing_flip`. A tensor that diverged and
// depends on it is measured again without the rows of those tokens, if it has such rows: within its
// tolerance it matches; beyond it, it stays diverged where tokens lie apart. A tensor that passes
// the choice on, number by number, gets the outcome of the choice. Everything else downstream that
// diverged becomes `after_routing_flip`, except replica conflicts, replayed updates and values that
// are not finite on one side. Sets out.routers.
void explain_routing(const RoutingInput& input, comparison::CompareReport& out);

}  // namespace ttrace::routing
