#include "replay/routing/routers.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "judge/tolerance.h"
#include "localize/phase.h"
#include "measure/left_out_rows.h"
#include "replay/routing/choices.h"
#include "replay/routing/explain_flips.h"

namespace ttrace::replay {
namespace {

using layout::View;
using trace::Kind;
using trace::TensorKey;

constexpr std::size_t kMostValues = 64;  // of one module that are looked at
constexpr std::uint64_t kSampledTokens = 256;
constexpr std::uint64_t kOrderLookedAt = 8;  // experts, where nothing tells how many a token has

// "experts.3", "local_experts.12": what stands beside a router, by number.
bool is_numbered(std::string_view name) {
  const std::string_view last = name.substr(name.rfind('.') + 1);
  return name.find('.') != std::string_view::npos && !last.empty() &&
         std::all_of(last.begin(), last.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::uint64_t elements(const View& view) { return tensor::element_count(view.shape).value_or(0); }

// Whether it is zero wherever the reference did not choose: then it follows from the choice.
bool follows_from_choice(Router& router) {
  const Decision& decision = router.decision;
  TokenRows rows(decision.reference, decision.tokens);
  const std::uint64_t token = router.flipped.front();
  const auto chosen = experts_of(rows.row(token), decision.spelling, decision.experts);
  if (!chosen || chosen->size() == decision.experts) return true;
  for (std::uint64_t expert = 0; expert < decision.experts; ++expert) {
    const bool is_chosen = std::binary_search(chosen->begin(), chosen->end(), expert);
    if (!is_chosen && router.reference->of(token, expert).value != 0) return false;
  }
  return true;
}

// Whether every token of a sample has the same number of experts, and not all: what is zero for
// another reason than a choice (an activation, a mask) has not.
bool is_top_k(const Decision& decision) {
  TokenRows rows(decision.reference, decision.tokens);
  const std::uint64_t sample = std::min(decision.tokens, kSampledTokens);
  std::optional<std::size_t> number;
  for (std::uint64_t i = 0; i < sample; ++i) {
    const auto row = rows.row(i * decision.tokens / sample);
    const auto chosen = experts_of(row, decision.spelling, decision.experts);
    if (!chosen || chosen->empty() || chosen->size() == decision.experts) return false;
    if (number && *number != chosen->size()) return false;
    number = chosen->size();
  }
  return true;
}

// Whether an integer tensor with a column for every expert holds numbers of experts all the same:
// as many may be chosen as scores are recorded, those of the chosen alone.
bool names_experts(const Decision& decision) {
  TokenRows rows(decision.reference, decision.tokens);
  const std::uint64_t sample = std::min(decision.tokens, kSampledTokens);
  for (std::uint64_t i = 0; i < sample; ++i) {
    const auto row = rows.row(i * decision.tokens / sample);
    const auto is_flag = [](double value) { return value == 0 || value == 1; };
    if (!std::all_of(row.begin(), row.end(), is_flag)) return true;
  }
  return false;
}

// Weights of experts differ by as little as the flips are few, so that they may well match; but
// looking for zeros in every output would read everything twice.
bool says_router(std::string_view module) {
  const std::string_view last = module.substr(module.rfind('.') + 1);
  return last == "gate" || last.find("router") != std::string_view::npos;
}

double epsilon_of(const View& a, const View& b) { return judge::shared_epsilon(a, b); }

}  // namespace

Routers::Routers(const trace::Source& reference, const trace::Source& candidate,
                 const std::vector<comparison::TensorComparison>& results)
    : reference_(reference), candidate_(candidate), results_(results) {
  for (std::size_t i = 0; i < results.size(); ++i) index_.emplace(results[i].key, i);
  any_bad_ = std::any_of(results.begin(), results.end(),
                         [](const auto& result) { return judge::is_bad(result.outcome); });
}

std::optional<Router> Routers::router_at(std::size_t i) const {
  const TensorKey& key = results_[i].key;
  const bool is_value = key.kind == Kind::kOutput || key.kind == Kind::kInput;
  if (!is_value || !results_[i].comparison || results_[i].reference->shape.empty()) {
    return std::nullopt;
  }
  const bool may_imply = any_bad_ && !results_[i].exact &&
                         says_router(trace::module_of_value(key.name)) &&
                         results_[i].outcome == judge::Outcome::kMatch;
  if (key.kind == Kind::kInput) return may_imply ? implied_at(i) : std::nullopt;
  const bool matched = results_[i].outcome == judge::Outcome::kMatch && !results_[i].exact &&
                       says_router(trace::module_of_value(key.name));
  // One that follows from flips before it may be wrong all the same.
  const bool differs = results_[i].outcome == judge::Outcome::kDiverged ||
                       results_[i].outcome == judge::Outcome::kAfterRoutingFlip;
  if (!matched && !differs) return std::nullopt;
  if (!results_[i].exact && has_own_decision(key)) return std::nullopt;
  for (const std::size_t scores : possible_scores(key)) {
    if (scores == i) continue;
    std::optional<Router> router = with_recorded(i, scores);
    if (router) return router;
  }
  if (auto router = with_linear(i)) return router;
  return may_imply ? implied_at(i) : std::nullopt;
}

// In the order of trust: what the module itself says, what is inside it, what it was given.
std::vector<std::size_t> Routers::possible_scores(const TensorKey& key) const {
  const std::string module(trace::module_of_value(key.name));
  std::vector<std::size_t> found;
  const auto add = [&](std::size_t i) {
    if (found.size() < kMostValues && is_floating_pair(i)) found.push_back(i);
  };
  const auto add_values = [&](Kind kind) {
    for (const std::size_t i : values_of(key, kind, module)) add(i);
  };
  add_values(Kind::kOutput);
  TensorKey inside = key;
  inside.name = module + ".";
  inside.call = 0;
  inside.copy = 0;
  for (auto at = index_.lower_bound(inside);
       at != index_.end() && at->first.step == key.step && at->first.microbatch == key.microbatch &&
       at->first.kind == Kind::kOutput && at->first.name.starts_with(inside.name);
       ++at) {
    if (at->first.call == key.call) add(at->second);
  }
  add_values(Kind::kInput);
  return found;
}

std::optional<Router> Routers::with_recorded(std::size_t i, std::size_t scores) const {
  const View& view = *results_[scores].reference;
  if (view.shape.empty() || view.shape.back() < 2) return std::nullopt;
  const std::uint64_t experts = view.shape.back();
  const std::uint64_t tokens = elements(view) / experts;
  std::optional<Router> router = with_shape(i, tokens, experts);
  if (!router) return std::nullopt;
  const double epsilon = epsilon_of(view, *results_[scores].candidate);
  router->reference = recorded_scores({&reference_, results_[scores].reference}, tokens, epsilon);
  router->candidate = recorded_scores({&candidate_, results_[scores].candidate}, tokens, epsilon);
  router->judged_by = {scores};
  router->scores = base::concat("scores: ", kind_name(results_[scores].key.kind), " of ",
                                results_[scores].key.name);
  if (follows_from_choice(*router)) return std::nullopt;
  if (!choice_follows(router->decision, *router->reference)) return std::nullopt;
  return router;
}

// A router's score as its input times its weight, by the numbers of the pairs.
struct Routers::Linear {
  std::size_t input;
  std::size_t weight;
  std::optional<std::size_t> bias;
  std::uint64_t tokens;
  std::uint64_t experts;
};

std::optional<Routers::Linear> Routers::linear_of(const TensorKey& key) const {
  const std::string module(trace::module_of_value(key.name));
  const auto input = find(key, Kind::kInput, module);
  const auto weight = find_parameter(key, module + ".weight");
  if (!input || !weight || !is_floating_pair(*input) || !is_floating_pair(*weight)) {
    return std::nullopt;
  }
  const View& x = *results_[*input].reference;
  const View& w = *results_[*weight].reference;
  if (w.shape.size() != 2 || x.shape.empty() || x.shape.back() != w.shape[1] || w.shape[0] < 2 ||
      w.shape[1] == 0) {
    return std::nullopt;
  }
  auto bias = find_parameter(key, module + ".bias");
  if (bias &&
      (!is_floating_pair(*bias) || results_[*bias].reference->shape != tensor::Shape{w.shape[0]})) {
    bias.reset();
  }
  return Linear{*input, *weight, bias, elements(x) / w.shape[1], w.shape[0]};
}

// `router` has the decision's numbers of tokens and experts.
void Routers::score_by(const Linear& linear, Router& router) const {
  router.judged_by = {linear.input, linear.weight};
  if (linear.bias) router.judged_by.push_back(*linear.bias);
  const auto epsilon_at = [this](std::size_t i) {
    return epsilon_of(*results_[i].reference, *results_[i].candidate);
  };
  const double epsilon = std::max(epsilon_at(linear.input), epsilon_at(linear.weight));
  const auto made = [&](const trace::Source& source, layout::ViewPtr comparison::Pair::*side) {
    const auto tensor = [&](std::size_t at) {
      return measure::TensorRef(&source, results_[at].*side);
    };
    std::optional<measure::TensorRef> shift;
    if (linear.bias) shift = tensor(*linear.bias);
    return linear_scores(tensor(linear.input), tensor(linear.weight), shift, linear.tokens,
                         epsilon);
  };
  router.reference = made(reference_, &comparison::Pair::reference);
  router.candidate = made(candidate_, &comparison::Pair::candidate);
  router.scores =
      base::concat("scores: made again from its input and ", results_[linear.weight].key.name);
}

std::optional<Router> Routers::with_linear(std::size_t i) const {
  const auto linear = linear_of(results_[i].key);
  if (!linear) return std::nullopt;
  std::optional<Router> router = with_shape(i, linear->tokens, linear->experts);
  if (router) score_by(*linear, *router);
  return router;
}

std::optional<std::uint64_t> Routers::experts_per_token(const TensorKey& key, std::uint64_t tokens,
                                                        std::uint64_t experts) const {
  const std::string_view module = trace::module_of_value(key.name);
  const std::size_t dot = module.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string around(module.substr(0, dot + 1));
  TensorKey beside = key;
  beside.kind = Kind::kInput;
  beside.name = around;
  beside.call = 0;
  beside.copy = 0;
  std::uint64_t rows = 0;
  for (auto at = index_.lower_bound(beside);
       at != index_.end() && at->first.step == key.step && at->first.microbatch == key.microbatch &&
       at->first.kind == Kind::kInput && at->first.name.starts_with(around);
       ++at) {
    const comparison::Pair& pair = results_[at->second];
    if (pair.reference == nullptr || pair.reference->shape.empty()) continue;
    const View& view = *pair.reference;
    const std::uint64_t last = view.shape.back();
    const bool is_choice = !tensor::is_floating(view.dtype) && view.shape.size() > 1 &&
                           elements(view) == tokens * last && last <= experts;
    if (is_choice) return last;
    const std::string_view name = at->first.name;
    if (name == trace::module_of_value(name) && is_numbered(name.substr(around.size())) &&
        tensor::is_floating(view.dtype) && view.shape.size() == 2) {
      rows += view.shape.front();
    }
  }
  if (rows == 0 || rows % tokens != 0 || rows / tokens > experts) return std::nullopt;
  return rows / tokens;
}

std::optional<Router> Routers::implied_at(std::size_t i) const {
  const TensorKey& key = results_[i].key;
  const View& view = *results_[i].reference;
  if (has_own_decision(key) || weighs_experts(key) || view.shape.back() < 2) return std::nullopt;
  const auto linear = linear_of(key);
  Router router;
  Decision& decision = router.decision;
  if (key.kind == Kind::kInput) {
    const std::string module(trace::module_of_value(key.name));
    TensorKey output = key;
    output.kind = Kind::kOutput;
    if (!linear || linear->input != i || !values_of(output, Kind::kOutput, module).empty()) {
      return std::nullopt;
    }
    decision.experts = linear->experts;
    decision.tokens = linear->tokens;
    score_by(*linear, router);
  } else {
    decision.experts = view.shape.back();
    decision.tokens = elements(view) / decision.experts;
    if (decision.tokens == 0 || (linear && linear->experts != decision.experts)) {
      return std::nullopt;
    }
    const double epsilon = epsilon_of(view, *results_[i].candidate);
    router.reference =
        recorded_scores({&reference_, results_[i].reference}, decision.tokens, epsilon);
    router.candidate =
        recorded_scores({&candidate_, results_[i].candidate}, decision.tokens, epsilon);
    router.judged_by = {i};
    router.scores = base::concat("scores: output of ", key.name);
  }
  const auto known = experts_per_token(key, decision.tokens, decision.experts);
  const std::uint64_t chosen = known.value_or(std::min(kOrderLookedAt, decision.experts - 1));
  if (chosen == 0 || chosen >= decision.experts) return std::nullopt;
  const Order order = known ? Order::kByNumber : Order::kByScore;
  decision.spelling = Spelling::kIndices;
  decision.reference = implied_choice({&reference_, results_[i].reference}, *router.reference,
                                      decision.tokens, decision.experts, chosen, order);
  decision.candidate = implied_choice({&candidate_, results_[i].candidate}, *router.candidate,
                                      decision.tokens, decision.experts, chosen, order);
  router.flipped = flipped_tokens(decision);
  if (router.flipped.empty()) return std::nullopt;
  router.implied = true;
  router.scores += ", whose choice was not recorded";
  return router;
}

// Pair i as a decision among so many experts for so many tokens, with its flips; nothing if its
// shape does not allow it or nothing flipped.
std::optional<Router> Routers::with_shape(std::size_t i, std::uint64_t tokens,
                                          std::uint64_t experts) const {
  const View& view = *results_[i].reference;
  if (tokens == 0 || !measure::row_dimensions(view.shape, tokens)) return std::nullopt;
  const std::uint64_t chosen = elements(view) / tokens;
  if (chosen == 0 || chosen > experts) return std::nullopt;
  const bool map = chosen == experts;
  if (!map && (view.dtype == tensor::DType::kBool || tensor::is_floating(view.dtype))) {
    return std::nullopt;
  }
  Router router;
  router.decision = {{&reference_, results_[i].reference},
                     {&candidate_, results_[i].candidate},
                     map ? Spelling::kMap : Spelling::kIndices,
                     tokens,
                     experts};
  if (tensor::is_floating(view.dtype) ? !is_top_k(router.decision)
                                      : map && names_experts(router.decision)) {
    return std::nullopt;
  }
  router.flipped = flipped_tokens(router.decision);
  if (router.flipped.empty()) return std::nullopt;
  return router;
}

bool Routers::has_own_decision(const TensorKey& key) const {
  const auto values = values_of(key, Kind::kOutput, std::string(trace::module_of_value(key.name)));
  return std::any_of(values.begin(), values.end(),
                     [this](std::size_t i) { return results_[i].exact; });
}

bool Routers::weighs_experts(const TensorKey& key) const {
  const auto values = values_of(key, Kind::kOutput, std::string(trace::module_of_value(key.name)));
  return std::any_of(values.begin(), values.end(), [this](std::size_t i) {
    if (!is_floating_pair(i)) return false;
    const View& view = *results_[i].reference;
    if (view.shape.empty() || view.shape.back() < 2) return false;
    const std::uint64_t tokens = elements(view) / view.shape.back();
    return tokens > 0 && is_top_k({{&reference_, results_[i].reference},
                                   {&candidate_, results_[i].candidate},
                                   Spelling::kMap,
                                   tokens,
                                   view.shape.back()});
  });
}

std::vector<std::size_t> Routers::values_of(const TensorKey& like, Kind kind,
                                            const std::string& module) const {
  std::vector<std::size_t> found;
  if (const auto first = find(like, kind, module)) found.push_back(*first);
  TensorKey further = like;
  further.kind = kind;
  further.name = module + "[";
  further.call = 0;
  further.copy = 0;
  for (auto at = index_.lower_bound(further);
       at != index_.end() && at->first.step == like.step &&
       at->first.microbatch == like.microbatch && at->first.kind == kind &&
       at->first.name.starts_with(further.name) && found.size() < kMostValues;
       ++at) {
    if (at->first.call == like.call && at->first.copy == like.copy) found.push_back(at->second);
  }
  return found;
}

std::optional<std::size_t> Routers::find(const TensorKey& like, Kind kind,
                                         const std::string& name) const {
  TensorKey key = like;
  key.kind = kind;
  key.name = name;
  const auto found = index_.find(key);
  return found == index_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::size_t> Routers::find_parameter(const TensorKey& like,
                                                   const std::string& name) const {
  TensorKey key = like;
  key.microbatch.reset();
  key.call = 0;
  key.copy = 0;
  return find(key, Kind::kParam, name);
}

bool Routers::is_floating_pair(std::size_t i) const {
  return results_[i].comparison && !results_[i].exact;
}

}  // namespace ttrace::replay
