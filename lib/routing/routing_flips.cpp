#include "routing/routing_flips.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "comparison/local_files.h"
#include "judge/fallback_rule.h"
#include "measure/fingerprints.h"
#include "routing/explain_flips.h"
#include "routing/routers.h"
#include "routing/routing_reach.h"
#include "routing/without_rows.h"

namespace ttrace::routing {
namespace {

using base::concat;
using comparison::TensorComparison;
using judge::Outcome;
using trace::Kind;

class RoutingFlips {
 public:
  RoutingFlips(const RoutingInput& input, comparison::CompareReport& out)
      : input_(input),
        out_(out),
        routers_(input.reference, input.candidate, out.results, input.modules),
        mixed_(out.results.size(), false) {}

  void run() {
    bool elsewhere = false;
    for (const std::size_t i : input_.flow.topological_order) {
      try {
        if (const auto router = routers_.router_at(i)) judge(i, *router);
      } catch (const base::InputError& error) {
        // If it could be read a moment ago, the divergence stands without an explanation.
        elsewhere = elsewhere || comparison::needs_another_machine(error.what());
      }
    }
    if (!elsewhere) return;
    for (TensorComparison& result : out_.results) {
      const bool choice = result.outcome == Outcome::kDiverged && result.exact;
      if (choice || is_excusable(result)) comparison::leave_to_other_machine(result);
    }
  }

 private:
  void judge(std::size_t i, const Router& router) {
    bool judged = true;
    bool follows = false;
    bool checked = true;
    for (const std::size_t source : router.judged_by) {
      const Outcome outcome = out_.results[source].outcome;
      if (outcome == Outcome::kAfterRoutingFlip) {
        judged = false;
      } else if (outcome == Outcome::kBelowNoiseFloor) {
        checked = false;  // noise runs that flip many tokens make tolerances of any width
      } else if (outcome != Outcome::kMatch) {
        return;  // not its choice is in question, but its input
      }
      follows = follows || mixed_[source];
    }
    const Explanation explanation =
        explain_flips(router.decision, router.flipped, *router.reference, *router.candidate,
                      follows ? NoiseSpread::kUneven : NoiseSpread::kEven);
    if (!checked && !explanation.scores_agree()) return;
    // A choice that was not recorded may follow from more than the scores (a bias, groups).
    if (router.implied && !explanation.explained()) return;
    comparison::RouterFlips flips;
    flips.key = out_.results[i].key;
    flips.tokens = router.decision.tokens;
    flips.experts = router.decision.experts;
    flips.flipped = router.flipped.size();
    flips.unexplained = explanation.unexplained;
    flips.scores = router.scores;
    flips.noise = explanation.noise;
    flips.largest_gap = explanation.largest_gap;
    flips.follows = follows;
    if (explanation.first) {
      flips.first_unexplained = explanation.first->token;
      flips.why = explanation.first->why;
    }
    out_.environment.bytes_read += router.reference->bytes_read() + router.candidate->bytes_read();
    TensorComparison& result = out_.results[i];
    const std::string words = describe_flips(flips);
    const measure::TileStats& stats = result.comparison->measurement.total;
    result.reason =
        result.exact ? concat(stats.unequal, " of ", stats.elements, " differ; ", words) : words;
    out_.routers.push_back(std::move(flips));
    if (!explanation.explained()) {
      result.outcome = Outcome::kDiverged;  // even if its weights match as a whole
      return;
    }
    if (result.exact) {
      result.outcome = judged ? Outcome::kRoutingFlip : Outcome::kAfterRoutingFlip;
    }
    excuse(i, router);
  }

  // Excuses everything that diverged and depends on the flipped tokens.
  void excuse(std::size_t router_node, const Router& router) {
    measure::LeftOutRows& rows = left_out(out_.results[router_node].key, router.decision.tokens);
    for (const std::uint64_t token : router.flipped) rows.add(token);
    const RoutingReach reach = reach_of(input_.nodes, input_.flow, input_.modules, router_node);
    std::vector<std::size_t> affected;
    const std::string_view beside = module_around(out_.results[router_node].key.name);
    const Counts counts = router.implied ? counts_of(router.decision) : Counts{};
    for (const std::size_t i : reach.nodes) {
      if (!reach.apart[i]) mixed_[i] = true;
      if (router.implied && excuse_dispatch(i, beside, counts)) continue;
      if (is_excusable(out_.results[i]) || follows_from_choice(i)) affected.push_back(i);
    }
    input_.execution.parallel_for(
        affected.size(), [&](std::size_t k) { excuse_one(affected[k], router_node, rows); });
  }

  // How many tokens each expert got.
  struct Counts {
    std::vector<std::uint64_t> reference;
    std::vector<std::uint64_t> candidate;
  };

  static Counts counts_of(const Decision& decision) {
    const auto count = [&decision](const measure::TensorRef& choice) {
      std::vector<std::uint64_t> counts(decision.experts, 0);
      TokenRows rows(choice, decision.tokens);
      for (std::uint64_t token = 0; token < decision.tokens; ++token) {
        for (const double expert : rows.row(token)) ++counts[static_cast<std::size_t>(expert)];
      }
      return counts;
    };
    return {count(decision.reference), count(decision.candidate)};
  }

  // Excuses the values of an expert that got other tokens: on each side they have as many rows as
  // the choices say, or are absent if no token went to it. Returns whether pair i is such a value.
  bool excuse_dispatch(std::size_t i, std::string_view beside, const Counts& counts) {
    TensorComparison& result = out_.results[i];
    const bool rows_differ = result.outcome == Outcome::kIncomparable;
    if (!rows_differ && !judge::is_one_sided(result.outcome)) return false;
    const auto expert = number_of_expert(result.key, beside);
    if (!expert || *expert >= counts.reference.size()) return false;
    const auto rows = [](const layout::ViewPtr& view) -> std::optional<std::uint64_t> {
      if (view == nullptr) return 0;
      return view->shape.empty() ? std::nullopt : std::optional(view->shape.front());
    };
    const bool of_tokens = is_of_tokens(result.key.kind);
    const comparison::Pair& pair = out_.results[i];
    const std::uint64_t before = counts.reference[*expert];
    const std::uint64_t after = counts.candidate[*expert];
    if (of_tokens ? rows(pair.reference) != before || rows(pair.candidate) != after
                  : rows_differ || (before == 0) == (after == 0)) {
      return false;
    }
    result.outcome = Outcome::kAfterRoutingFlip;
    result.reason =
        concat("expert ", *expert, " was given ", base::plural(after, "token"),
               ", in the reference ", before, ": some went to other experts near a tie");
    return true;
  }

  static bool is_of_tokens(Kind kind) {
    return kind == Kind::kInput || kind == Kind::kOutput || kind == Kind::kGradOutput ||
           kind == Kind::kGradInput;
  }

  static std::string_view module_around(std::string_view name) {
    const std::string_view module = trace::module_of_value(name);
    const std::size_t dot = module.rfind('.');
    return dot == std::string_view::npos ? std::string_view() : module.substr(0, dot + 1);
  }

  // 3 of "layers.0.mlp.experts.3.w1" beside a router within "layers.0.mlp.".
  static std::optional<std::uint64_t> number_of_expert(const trace::TensorKey& key,
                                                       std::string_view beside) {
    if (beside.empty() || !key.name.starts_with(beside)) return std::nullopt;
    return judge::layer_number(std::string_view(key.name).substr(beside.size()));
  }

  // Whether pair i is the choice itself, passed on to the experts.
  bool is_passed_on(std::size_t i, std::size_t router_node) const {
    if (!out_.results[i].exact || !out_.results[router_node].exact) return false;
    const comparison::Pair& given = out_.results[i];
    const comparison::Pair& choice = out_.results[router_node];
    try {
      return measure::same_numbers({&input_.reference, given.reference},
                                   {&input_.reference, choice.reference}) &&
             measure::same_numbers({&input_.candidate, given.candidate},
                                   {&input_.candidate, choice.candidate});
    } catch (const base::InputError&) {
      return false;
    }
  }

  // Whether pair i is a choice that an earlier router left unjudged: it may be this router's
  // choice.
  bool follows_from_choice(std::size_t i) const {
    return out_.results[i].exact && out_.results[i].outcome == Outcome::kAfterRoutingFlip;
  }

  static bool is_excusable(const TensorComparison& result) {
    // Another expert gives another number, not NaN.
    return result.outcome == Outcome::kDiverged && result.comparison &&
           !result.comparison->replay &&
           result.comparison->measurement.total.nonfinite_different == 0;
  }

  // Rows of the tokens of a micro-batch that any router so far sent elsewhere.
  measure::LeftOutRows& left_out(const trace::TensorKey& key, std::uint64_t tokens) {
    return left_out_.try_emplace({key.step, key.microbatch, tokens}, measure::LeftOutRows(tokens))
        .first->second;
  }

  void excuse_one(std::size_t i, std::size_t router_node, const measure::LeftOutRows& rows) {
    TensorComparison& result = out_.results[i];
    if (is_passed_on(i, router_node)) {
      result.outcome = out_.results[router_node].outcome;
      result.reason = concat("the choice of ", to_string(out_.results[router_node].key));
      return;
    }
    if (result.outcome == Outcome::kAfterRoutingFlip) return;
    const trace::TensorKey& key = result.key;
    const bool in_rows = (key.kind == Kind::kInput || key.kind == Kind::kOutput) && !result.exact &&
                         measure::row_dimensions(result.shape, rows.rows());
    std::optional<TensorComparison> again;
    if (in_rows) again = without(i, rows);
    if (again && (again->outcome == Outcome::kMatch || !mixed_[i])) {
      result = *std::move(again);
      return;
    }
    result.outcome = Outcome::kAfterRoutingFlip;
    result.reason = concat(result.reason, result.reason.empty() ? "" : "; ",
                           "computed from tokens that went to other experts near a tie");
  }

  // Returns the pair judged without those rows; nothing if it can no longer be read.
  std::optional<TensorComparison> without(std::size_t i, const measure::LeftOutRows& rows) const {
    std::optional<TensorComparison> result = judged_without(input_, out_.results[i], rows);
    if (!result) return std::nullopt;
    result->tokens_left_out = rows.count();
    const std::string whose = concat("without the rows of ", base::plural(rows.count(), "token"),
                                     " that went to other experts near a tie");
    result->reason =
        result->outcome == Outcome::kMatch
            ? whose
            : concat("also ", whose, result->reason.empty() ? "" : "; ", result->reason);
    return result;
  }

  const RoutingInput& input_;
  comparison::CompareReport& out_;
  Routers routers_;
  std::vector<bool> mixed_;  // of pair i: computed from flipped tokens among others
  std::map<std::tuple<std::uint64_t, std::optional<std::uint64_t>, std::uint64_t>,
           measure::LeftOutRows>
      left_out_;
};

}  // namespace

void explain_routing(const RoutingInput& input, comparison::CompareReport& out) {
  RoutingFlips(input, out).run();
}

}  // namespace ttrace::routing
