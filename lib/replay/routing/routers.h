// Which recorded tensors are decisions of routers, and by which scores these were made.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comparison/pairing.h"
#include "comparison/result.h"
#include "replay/routing/choices.h"
#include "replay/routing/scores.h"

namespace ttrace::replay {

struct Router {
  Decision decision;
  std::vector<std::uint64_t> flipped;  // tokens, at least one
  std::vector<std::size_t> judged_by;  // pairs that the scores are made of
  std::string scores;                  // in words
  bool implied = false;                // the choice was not recorded: it follows from the scores
  std::unique_ptr<Scores> reference;
  std::unique_ptr<Scores> candidate;
};

// Looks for routers among the outputs of modules.
class Routers {
 public:
  // All must outlive it.
  Routers(const trace::Source& reference, const trace::Source& candidate,
          const std::vector<comparison::TensorComparison>& results);

  // Pair i as the decision of a router that chose otherwise for some tokens. A decision is
  //  - an output of bools or integers: a column for every expert, or the experts' numbers;
  //  - where its module has none, an output of floating-point numbers with a column for every
  //    expert, zero where it was not chosen, as many chosen for every token;
  // that diverged (the latter also where it matches, if the module is called a router or gate), and
  // for which there are scores: another output of the module, an output of a
  // module inside it, or an input of it, with a column for every expert; or its input and a
  // parameter "<module>.weight" with a row for every expert. Throws an input error if a shard
  // cannot be read.
  //
  // Where a router (by its name) recorded no decision, the decision that its scores imply: its
  // output with a column for every expert, or its input and weight. How many experts a token has is
  // told by a tensor of integers that a module beside it was given, or by the rows that the experts
  // beside it, "<around>.<...>.<number>", were given; where nothing tells, the order of the best
  // eight is looked at.
  std::optional<Router> router_at(std::size_t i) const;

 private:
  std::vector<std::size_t> possible_scores(const trace::TensorKey& key) const;
  std::optional<Router> with_recorded(std::size_t i, std::size_t scores) const;
  std::optional<Router> with_linear(std::size_t i) const;
  std::optional<Router> implied_at(std::size_t i) const;
  std::optional<std::uint64_t> experts_per_token(const trace::TensorKey& key, std::uint64_t tokens,
                                                 std::uint64_t experts) const;
  struct Linear;
  std::optional<Linear> linear_of(const trace::TensorKey& key) const;
  void score_by(const Linear& linear, Router& router) const;
  std::optional<Router> with_shape(std::size_t i, std::uint64_t tokens,
                                   std::uint64_t experts) const;
  bool has_own_decision(const trace::TensorKey& key) const;
  // Whether an output of its module is zero for all experts but as many for every token.
  bool weighs_experts(const trace::TensorKey& key) const;
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
  const std::vector<comparison::TensorComparison>& results_;
  std::map<trace::TensorKey, std::size_t> index_;
  bool any_bad_ = false;  // without a bad tensor there is nothing that a choice could explain
};

}  // namespace ttrace::replay
