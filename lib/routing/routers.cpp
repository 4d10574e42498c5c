#include "routing/routers.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string_view>

#include "base/text.h"
#include "judge/fallback_rule.h"
#include "judge/tolerance.h"
#include "localize/phase.h"
#include "measure/measure.h"
#include "routing/choices.h"
#include "routing/explain_flips.h"
#include "routing/named_pairs.h"

namespace ttrace::routing {
namespace {

using comparison::TensorComparison;
using layout::View;
using trace::Kind;
using trace::TensorKey;

constexpr std::uint64_t kTokensTried = 256;  // that say whether a tensor is a choice
constexpr std::uint64_t kOrderCompared = 8;  // experts, where a token's number is not known

// "experts.3", "local_experts.12": an expert's module, seen from the module around its router.
bool is_numbered(std::string_view name) {
  const std::string_view last = name.substr(name.rfind('.') + 1);
  return name.find('.') != std::string_view::npos && !last.empty() &&
         std::all_of(last.begin(), last.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::uint64_t elements(const View& view) { return tensor::element_count(view.shape).value_or(0); }

// Whether the scores of the first flipped token are zero wherever the reference did not choose:
// then they follow from the choice.
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

// Whether `holds` is true of the reference's row for every token of a sample.
template <typename Holds>
bool all_sampled(const Decision& decision, Holds holds) {
  TokenRows rows(decision.reference, decision.tokens);
  const std::uint64_t sample = std::min(decision.tokens, kTokensTried);
  for (std::uint64_t i = 0; i < sample; ++i) {
    if (!holds(rows.row(i * decision.tokens / sample))) return false;
  }
  return true;
}

// Whether every token has the same number of experts, and not all. Values that are zero for another
// reason (an activation, a mask) do not.
bool is_top_k(const Decision& decision) {
  std::optional<std::size_t> number;
  return all_sampled(decision, [&](std::span<const double> row) {
    const auto chosen = experts_of(row, decision.spelling, decision.experts);
    if (!chosen || chosen->empty() || chosen->size() == decision.experts) return false;
    if (!number) number = chosen->size();
    return *number == chosen->size();
  });
}

// Whether an integer tensor with a column for every expert holds numbers of experts nevertheless:
// only the scores of the chosen experts may have been recorded.
bool names_experts(const Decision& decision) {
  return !all_sampled(decision, [](std::span<const double> row) {
    return std::all_of(row.begin(), row.end(), [](double v) { return v == 0 || v == 1; });
  });
}

// Whether the module is called a router or gate. A name alone makes none: a gate may multiply what
// it is beside, and choose nothing. Its weights of experts are examined even if they
// match, as they may with few flips; examining every output would read everything twice.
bool says_router(std::string_view module) {
  const std::string_view last = module.substr(module.rfind('.') + 1);
  return last == "gate" || last.find("router") != std::string_view::npos;
}

bool says_expert(std::string_view name) {
  return name.find("expert") != std::string_view::npos ||
         name.find("Expert") != std::string_view::npos;
}

// The score of a linear router is its input times its weight; these are indices of pairs.
struct Linear {
  std::size_t input;
  std::size_t weight;
  std::optional<std::size_t> bias;
  std::uint64_t tokens;
  std::uint64_t experts;
};

}  // namespace

class Routers::Finder {
 public:
  Finder(const trace::Source& reference, const trace::Source& candidate,
         const std::vector<TensorComparison>& results, const std::vector<trace::Module>& modules)
      : reference_(reference),
        candidate_(candidate),
        results_(results),
        modules_(modules),
        named_(results) {
    any_bad_ = std::any_of(results.begin(), results.end(),
                           [](const auto& result) { return judge::is_bad(result.outcome); });
  }

  std::optional<Router> router_at(std::size_t i) const {
    const TensorComparison& result = results_[i];
    const TensorKey& key = result.key;
    const bool is_value = key.kind == Kind::kOutput || key.kind == Kind::kInput;
    if (!is_value || !result.comparison || result.reference->shape.empty()) return std::nullopt;
    const bool matched = result.outcome == judge::Outcome::kMatch && !result.exact &&
                         says_router(trace::module_of_value(key.name));
    const bool may_imply = any_bad_ && matched;
    if (key.kind == Kind::kInput) return may_imply ? implied_at(i) : std::nullopt;
    // A choice that follows from flips before it may still be wrong.
    const bool differs = result.outcome == judge::Outcome::kDiverged ||
                         result.outcome == judge::Outcome::kAfterRoutingFlip;
    if (!matched && !differs) return std::nullopt;
    if (!result.exact && has_own_decision(key)) return std::nullopt;
    for (const std::size_t scores : possible_scores(key)) {
      if (scores == i) continue;
      if (std::optional<Router> router = with_recorded(i, scores)) return router;
    }
    if (const auto linear = linear_of(key)) {
      std::optional<Router> router = with_shape(i, linear->tokens, linear->experts);
      if (router) score_by(*linear, *router);
      if (router) return router;
    }
    return may_imply ? implied_at(i) : std::nullopt;
  }

 private:
  // In the order of trust: outputs of the module, outputs of modules inside it, inputs of it.
  std::vector<std::size_t> possible_scores(const TensorKey& key) const {
    const std::string module(trace::module_of_value(key.name));
    std::vector<std::size_t> found;
    const auto add = [&](std::size_t i) {
      if (found.size() < NamedPairs::kMostValues && named_.is_floating_pair(i)) found.push_back(i);
    };
    const auto add_values = [&](Kind kind) {
      for (const std::size_t i : named_.values_of(key, kind, module)) add(i);
    };
    add_values(Kind::kOutput);
    named_.for_each_named(key, Kind::kOutput, module + ".",
                          [&](const TensorKey& inside, std::size_t i) {
                            if (inside.call == key.call) add(i);
                            return true;
                          });
    add_values(Kind::kInput);
    return found;
  }

  // Takes the scores that pair i recorded; `router` has the decision's numbers.
  void score_by_pair(std::size_t i, Router& router) const {
    const TensorComparison& pair = results_[i];
    const double epsilon = judge::shared_epsilon(*pair.reference, *pair.candidate);
    const std::uint64_t tokens = router.decision.tokens;
    router.reference = recorded_scores({&reference_, pair.reference}, tokens, epsilon);
    router.candidate = recorded_scores({&candidate_, pair.candidate}, tokens, epsilon);
    router.judged_by = {i};
    router.scores = base::concat("scores: ", kind_name(pair.key.kind), " of ", pair.key.name);
  }

  std::optional<Router> with_recorded(std::size_t i, std::size_t scores) const {
    const View& view = *results_[scores].reference;
    if (view.shape.empty() || view.shape.back() < 2) return std::nullopt;
    const std::uint64_t experts = view.shape.back();
    const std::uint64_t tokens = elements(view) / experts;
    std::optional<Router> router = with_shape(i, tokens, experts);
    if (!router) return std::nullopt;
    score_by_pair(scores, *router);
    if (follows_from_choice(*router)) return std::nullopt;
    if (!choice_follows(router->decision, *router->reference)) return std::nullopt;
    return router;
  }

  std::optional<Linear> linear_of(const TensorKey& key) const {
    const std::string module(trace::module_of_value(key.name));
    const auto input = named_.find(key, Kind::kInput, module);
    TensorKey of_step = key;
    of_step.microbatch.reset();
    of_step.call = 0;
    of_step.copy = 0;
    const auto weight = named_.find(of_step, Kind::kParam, module + ".weight");
    if (!input || !weight || !named_.is_floating_pair(*input) ||
        !named_.is_floating_pair(*weight)) {
      return std::nullopt;
    }
    const View& x = *results_[*input].reference;
    const View& w = *results_[*weight].reference;
    if (w.shape.size() != 2 || x.shape.empty() || x.shape.back() != w.shape[1] || w.shape[0] < 2 ||
        w.shape[1] == 0) {
      return std::nullopt;
    }
    auto bias = named_.find(of_step, Kind::kParam, module + ".bias");
    if (bias && (!named_.is_floating_pair(*bias) ||
                 results_[*bias].reference->shape != tensor::Shape{w.shape[0]})) {
      bias.reset();
    }
    return Linear{*input, *weight, bias, elements(x) / w.shape[1], w.shape[0]};
  }

  void score_by(const Linear& linear, Router& router) const {
    router.judged_by = {linear.input, linear.weight};
    if (linear.bias) router.judged_by.push_back(*linear.bias);
    const auto epsilon_at = [this](std::size_t i) {
      return judge::shared_epsilon(*results_[i].reference, *results_[i].candidate);
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

  // What beside a router shows that it chooses, seen from the module around it, `around`.
  struct Beside {
    std::optional<std::uint64_t> chosen;  // how many experts a token has
    std::optional<std::size_t> passed;    // a pair: numbers of experts that its scores prefer
    bool experts = false;                 // that many experts exist
  };

  // The experts of every token may have been passed on as a tensor of integers to a module beside
  // the router. Or modules "<around>.<...>.<number>", as many as there are experts, were given rows
  // that add up to a number of experts for each token. Experts exist by their name too: numbered
  // modules, or a parameter with a row for each.
  Beside beside(const TensorKey& key, const Decision& decision, Scores& scores) const {
    const std::string_view module = trace::module_of_value(key.name);
    const std::size_t dot = module.rfind('.');
    Beside found;
    if (dot == std::string_view::npos) return found;
    const std::string around(module.substr(0, dot + 1));
    std::uint64_t rows = 0;
    named_.for_each_named(key, Kind::kInput, around, [&](const TensorKey& beside, std::size_t i) {
      const layout::ViewPtr& view = results_[i].reference;
      if (view == nullptr || view->shape.empty()) return true;
      if (is_passed_choice(i, decision)) {
        found.chosen = view->shape.back();
        const Decision passed =
            decision_of(i, Spelling::kIndices, decision.tokens, decision.experts);
        if (choice_follows(passed, scores)) found.passed = i;
      }
      const std::string_view name = beside.name;
      if (name == trace::module_of_value(name) && is_numbered(name.substr(around.size())) &&
          tensor::is_floating(view->dtype) && view->shape.size() == 2) {
        rows += view->shape.front();
      }
      return !found.chosen;
    });
    const std::uint64_t each = rows / decision.tokens;
    const bool dispatched = rows > 0 && rows % decision.tokens == 0 && each <= decision.experts;
    if (!found.chosen && dispatched) found.chosen = each;
    found.experts = experts_exist(key, around, decision.experts, dispatched);
    return found;
  }

  // Whether pair i has the numbers of each token's experts: integers below their number, none of
  // them twice in a row (a mask or positions are none).
  bool is_passed_choice(std::size_t i, const Decision& decision) const {
    const View& view = *results_[i].reference;
    const std::uint64_t chosen = view.shape.back();
    if (tensor::is_floating(view.dtype) || view.dtype == tensor::DType::kBool ||
        view.shape.size() < 2 || chosen == 0 || chosen >= decision.experts ||
        elements(view) != decision.tokens * chosen ||
        !measure::row_dimensions(view.shape, decision.tokens)) {
      return false;
    }
    return all_sampled(decision_of(i, Spelling::kIndices, decision.tokens, decision.experts),
                       [&decision](std::span<const double> row) {
                         return experts_of(row, Spelling::kIndices, decision.experts).has_value();
                       });
  }

  bool experts_exist(const TensorKey& key, const std::string& around, std::uint64_t experts,
                     bool dispatched) const {
    bool exist = false;
    std::map<std::string, std::set<std::uint64_t>, std::less<>> lists;
    const auto add = [&](std::string_view name) {
      for (std::size_t dot = name.find('.'); dot != std::string_view::npos;
           dot = name.find('.', dot + 1)) {
        const std::string_view rest = name.substr(dot + 1);
        const auto number = judge::layer_number(rest.substr(0, rest.find('.')));
        if (number) lists[std::string(name.substr(0, dot))].insert(*number);
      }
    };
    for (const trace::Module& module : modules_) {
      if (module.name.starts_with(around)) add(std::string_view(module.name).substr(around.size()));
    }
    TensorKey of_step = key;
    of_step.microbatch.reset();
    named_.for_each_named(
        of_step, Kind::kParam, around, [&](const TensorKey& param, std::size_t i) {
          const std::string_view name = std::string_view(param.name).substr(around.size());
          add(name);
          const layout::ViewPtr& view = results_[i].reference;
          exist = exist || (says_expert(name) && view != nullptr && view->shape.size() > 1 &&
                            view->shape.front() == experts);
          return !exist;
        });
    for (const auto& [list, numbers] : lists) {
      exist = exist || (says_expert(list) ? *numbers.rbegin() < experts
                                          : dispatched && numbers.size() == experts);
    }
    return exist;
  }

  // For a router that recorded no decision, returns the one that its scores imply. The scores are
  // its output with a column for every expert, or its input times its weight. If nothing says how
  // many experts a token gets, compares the order of the best kOrderCompared.
  std::optional<Router> implied_at(std::size_t i) const {
    const TensorKey& key = results_[i].key;
    const View& view = *results_[i].reference;
    if (has_own_decision(key) || weighs_experts(key) || view.shape.back() < 2) return std::nullopt;
    const auto linear = linear_of(key);
    Router router;
    Decision& decision = router.decision;
    if (key.kind == Kind::kInput) {
      if (!linear || linear->input != i || !outputs_of(key).empty()) return std::nullopt;
      decision.experts = linear->experts;
      decision.tokens = linear->tokens;
      score_by(*linear, router);
    } else {
      decision.experts = view.shape.back();
      decision.tokens = elements(view) / decision.experts;
      if (decision.tokens == 0 || (linear && linear->experts != decision.experts)) {
        return std::nullopt;
      }
      score_by_pair(i, router);
    }
    const Beside known = beside(key, decision, *router.reference);
    // A gate that chooses nothing makes no flips.
    if (!known.experts && !known.passed) return std::nullopt;
    const std::uint64_t chosen =
        known.chosen.value_or(std::min(kOrderCompared, decision.experts - 1));
    if (chosen == 0 || chosen >= decision.experts) return std::nullopt;
    const Order order = known.chosen ? Order::kByNumber : Order::kByScore;
    if (known.passed && results_[*known.passed].candidate != nullptr) {
      decision = decision_of(*known.passed, Spelling::kIndices, decision.tokens, decision.experts);
    } else {
      decision.spelling = Spelling::kIndices;
      decision.reference = implied_choice({&reference_, results_[i].reference}, *router.reference,
                                          decision.tokens, decision.experts, chosen, order);
      decision.candidate = implied_choice({&candidate_, results_[i].candidate}, *router.candidate,
                                          decision.tokens, decision.experts, chosen, order);
    }
    router.flipped = flipped_tokens(decision);
    if (router.flipped.empty()) return std::nullopt;
    router.implied = true;
    router.scores += ", whose choice was not recorded";
    return router;
  }

  Decision decision_of(std::size_t i, Spelling spelling, std::uint64_t tokens,
                       std::uint64_t experts) const {
    return {{&reference_, results_[i].reference},
            {&candidate_, results_[i].candidate},
            spelling,
            tokens,
            experts};
  }

  // Pair i as a decision of that many tokens among that many experts, with its flips; nothing if
  // its shape does not allow it or nothing flipped.
  std::optional<Router> with_shape(std::size_t i, std::uint64_t tokens,
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
    router.decision = decision_of(i, map ? Spelling::kMap : Spelling::kIndices, tokens, experts);
    if (tensor::is_floating(view.dtype) ? !is_top_k(router.decision)
                                        : map && names_experts(router.decision)) {
      return std::nullopt;
    }
    router.flipped = flipped_tokens(router.decision);
    if (router.flipped.empty()) return std::nullopt;
    return router;
  }

  std::vector<std::size_t> outputs_of(const TensorKey& key) const {
    return named_.values_of(key, Kind::kOutput, std::string(trace::module_of_value(key.name)));
  }

  bool has_own_decision(const TensorKey& key) const {
    const auto values = outputs_of(key);
    return std::any_of(values.begin(), values.end(),
                       [this](std::size_t i) { return results_[i].exact; });
  }

  // Whether an output of the module is zero for all experts but as many for every token.
  bool weighs_experts(const TensorKey& key) const {
    const auto values = outputs_of(key);
    return std::any_of(values.begin(), values.end(), [this](std::size_t i) {
      if (!named_.is_floating_pair(i)) return false;
      const View& view = *results_[i].reference;
      if (view.shape.empty() || view.shape.back() < 2) return false;
      const std::uint64_t tokens = elements(view) / view.shape.back();
      return tokens > 0 && is_top_k(decision_of(i, Spelling::kMap, tokens, view.shape.back()));
    });
  }

  const trace::Source& reference_;
  const trace::Source& candidate_;
  const std::vector<TensorComparison>& results_;
  const std::vector<trace::Module>& modules_;
  NamedPairs named_;
  bool any_bad_ = false;  // without a bad tensor there is nothing that a choice could explain
};

Routers::Routers(const trace::Source& reference, const trace::Source& candidate,
                 const std::vector<comparison::TensorComparison>& results,
                 const std::vector<trace::Module>& modules)
    : finder_(std::make_unique<Finder>(reference, candidate, results, modules)) {}

Routers::~Routers() = default;

std::optional<Router> Routers::router_at(std::size_t i) const { return finder_->router_at(i); }

}  // namespace ttrace::routing
