// Which pairs of a comparison are the decisions of routers, by which scores, and which tokens they
// sent elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comparison/result.h"
#include "routing/choices.h"
#include "trace/source.h"

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
          const std::vector<comparison::TensorComparison>& results,
          const std::vector<trace::Module>& modules);
  ~Routers();

  // Returns pair i as the decision of a router that chose otherwise for some tokens. A decision is
  //  - an output of bools or integers: a column for every expert, or the experts' numbers;
  //  - where its module has none, an output of floating-point numbers with a column for every
  //    expert, zero where it was not chosen, as many chosen for every token;
  // It has diverged (the second kind may also match, if the module is called a router or gate), and
  // there are scores for it: another output of the module, an output of a module inside it, or an
  // input of it, with a column for every expert; or its input and a parameter "<module>.weight"
  // with a row for every expert. If a router (by its name) recorded no decision, its scores imply
  // one, where experts are beside it: numbers of experts that follow from its scores were passed
  // on, or rows dealt out among as many modules, or modules or a parameter are called so. Throws an
  // input error if a shard cannot be read.
  std::optional<Router> router_at(std::size_t i) const;

 private:
  class Finder;
  std::unique_ptr<const Finder> finder_;
};

}  // namespace ttrace::routing
