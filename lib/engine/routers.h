// Which recorded tensors are decisions of routers, and by which scores these were made.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/pairing.h"
#include "report/compare_report.h"
#include "routing/flips.h"
#include "routing/scores.h"

namespace ttrace::engine {

struct Router {
  routing::Decision decision;
  std::vector<std::uint64_t> flipped;  // tokens, at least one
  std::vector<std::size_t> judged_by;  // pairs that the scores are made of
  std::string scores;                  // in words
  std::unique_ptr<routing::Scores> reference;
  std::unique_ptr<routing::Scores> candidate;
};

// Looks for routers among the outputs of modules.
class Routers {
 public:
  // All must outlive it; results[i] belongs to pairs[i].
  Routers(const trace::Source& reference, const trace::Source& candidate,
          const std::vector<Pair>& pairs, const std::vector<report::Result>& results);

  // Pair i as the decision of a router that chose otherwise for some tokens. A decision is
  //  - an output of bools or integers: a column for every expert, or the experts' numbers;
  //  - where its module has none, an output of floating-point numbers with a column for every
  //    expert, zero where it was not chosen, as many chosen for every token;
  // that diverged (the latter also where it matches, if the module is called a router or gate), and
  // for which there are scores: another output of the module, an output of a
  // module inside it, or an input of it, with a column for every expert; or its input and a
  // parameter "<module>.weight" with a row for every expert. Throws an input error if a shard
  // cannot be read.
  std::optional<Router> router_at(std::size_t i) const;

 private:
  std::vector<std::size_t> possible_scores(const trace::TensorKey& key) const;
  std::optional<Router> with_recorded(std::size_t i, std::size_t scores) const;
  std::optional<Router> with_linear(std::size_t i) const;
  std::optional<Router> with_shape(std::size_t i, std::uint64_t tokens,
                                   std::uint64_t experts) const;
  bool has_own_decision(const trace::TensorKey& key) const;
  std::optional<std::size_t> find(const trace::TensorKey& like, trace::Kind kind,
                                  const std::string& name) const;
  // All values of the module in the call of `like`: "m", then "m[...]"; not more than are looked
  // at.
  std::vector<std::size_t> values_of(const trace::TensorKey& like, trace::Kind kind,
                                     const std::string& module) const;
  std::optional<std::size_t> find_parameter(const trace::TensorKey& like,
                                            const std::string& name) const;
  bool is_floating_pair(std::size_t i) const;

  const trace::Source& reference_;
  const trace::Source& candidate_;
  const std::vector<Pair>& pairs_;
  const std::vector<report::Result>& results_;
  std::map<trace::TensorKey, std::size_t> index_;
};

}  // namespace ttrace::engine
