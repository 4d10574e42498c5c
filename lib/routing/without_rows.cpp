#include "routing/without_rows.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "comparison/judge_pairs.h"
#include "routing/choices.h"

namespace ttrace::routing {
namespace {

using comparison::TensorComparison;
using judge::Outcome;
using trace::Kind;

class RowsWithoutGradient {
 public:
  RowsWithoutGradient(const RoutingInput& input, comparison::CompareReport& out)
      : input_(input), out_(out) {
    for (std::size_t i = 0; i < out.results.size(); ++i) {
      const TensorComparison& result = out.results[i];
      const Kind kind = result.key.kind;
      const bool gradient = kind == Kind::kGradOutput || kind == Kind::kGradInput;
      if (gradient && result.comparison) gradients_.emplace(result.key, i);
    }
  }

  void run() {
    std::vector<bool> bad(out_.results.size(), false);
    for (const std::size_t i : input_.flow.topological_order) {
      TensorComparison& result = out_.results[i];
      const auto& needs = input_.flow.depends_on[i];
      bad[i] = std::any_of(needs.begin(), needs.end(), [&](std::size_t k) { return bad[k]; });
      if (bad[i] || !judge::is_bad(result.outcome)) continue;
      if (!leave_out(i, result)) bad[i] = true;
    }
  }

 private:
  // Returns whether the pair matches without the rows that have no gradient.
  bool leave_out(std::size_t i, TensorComparison& result) {
    const Kind kind = result.key.kind;
    const bool of_forward = kind == Kind::kInput || kind == Kind::kOutput;
    if (!of_forward || result.outcome != Outcome::kDiverged || result.exact) return false;
    if (!result.comparison || result.shape.empty() || result.stored_before) return false;
    std::optional<measure::LeftOutRows> rows;
    try {
      if (const auto gradient = gradient_of(result)) rows = without_gradient(result, *gradient);
    } catch (const base::InputError&) {
      return false;  // If it could be read a moment ago, the divergence stands.
    }
    if (!rows) rows = rows_of_source(i, result);
    if (!rows || rows->count() == 0 || rows->count() == rows->rows()) return false;
    std::optional<TensorComparison> again = judged_without(input_, result, *rows);
    if (!again || again->outcome != Outcome::kMatch) return false;
    result = *std::move(again);
    result.rows_without_gradient = rows->count();
    result.reason = base::concat("without ", base::plural(rows->count(), "row"),
                                 " that no gradient comes to, in either run");
    found_.emplace(i, *std::move(rows));
    return true;
  }

  std::optional<std::size_t> gradient_of(const TensorComparison& result) const {
    trace::TensorKey key = result.key;
    key.kind = key.kind == Kind::kInput ? Kind::kGradInput : Kind::kGradOutput;
    const auto found = gradients_.find(key);
    if (found == gradients_.end()) return std::nullopt;
    return out_.results[found->second].shape == result.shape ? std::optional(found->second)
                                                             : std::nullopt;
  }

  // An input whose own gradient was not recorded is what a module before it returned.
  std::optional<measure::LeftOutRows> rows_of_source(std::size_t i,
                                                     const TensorComparison& result) const {
    if (result.key.kind != Kind::kInput) return std::nullopt;
    for (const std::size_t source : input_.flow.depends_on[i]) {
      const auto found = found_.find(source);
      if (found == found_.end() || out_.results[source].shape != result.shape) continue;
      return found->second;
    }
    return std::nullopt;
  }

  measure::LeftOutRows without_gradient(const TensorComparison& result, std::size_t gradient) {
    std::uint64_t count = 1;
    const std::size_t leading = std::max<std::size_t>(result.shape.size() - 1, 1);
    for (std::size_t d = 0; d < leading; ++d) count *= result.shape[d];
    measure::LeftOutRows rows(count);
    const comparison::Pair& pair = out_.results[gradient];
    TokenRows reference({&input_.reference, pair.reference}, count);
    TokenRows candidate({&input_.candidate, pair.candidate}, count);
    const auto is_zero = [](std::span<const double> row) {
      return std::all_of(row.begin(), row.end(), [](double value) { return value == 0; });
    };
    for (std::uint64_t row = 0; row < count; ++row) {
      if (is_zero(reference.row(row)) && is_zero(candidate.row(row))) rows.add(row);
    }
    out_.environment.bytes_read += reference.bytes_read() + candidate.bytes_read();
    return rows;
  }

  const RoutingInput& input_;
  comparison::CompareReport& out_;
  std::map<trace::TensorKey, std::size_t> gradients_;
  std::map<std::size_t, measure::LeftOutRows> found_;
};

}  // namespace

std::optional<TensorComparison> judged_without(const RoutingInput& input,
                                               const TensorComparison& of,
                                               const measure::LeftOutRows& rows) {
  TensorComparison result = of;
  comparison::ComparedNumbers& comparison = *result.comparison;
  try {
    std::uint64_t noise_bytes = 0;
    comparison.noise = input.noise.of(input.reference, of, noise_bytes);
    const measure::Grid* grid = comparison.noise ? &comparison.noise->grid : nullptr;
    const std::uint64_t bytes = comparison.measurement.bytes_read + noise_bytes;
    comparison.measurement =
        measure::measure(*input.execution.backend, {&input.reference, of.reference},
                         {&input.candidate, of.candidate}, grid, {&rows, nullptr});
    comparison.measurement.bytes_read += bytes;
  } catch (const base::InputError&) {
    return std::nullopt;
  }
  comparison.slices = {};
  comparison::judge_parts(input.rules, input.most_slices, result);
  comparison.measurement.cells = {};
  if (comparison.noise) comparison.noise->cells = {};
  const judge::Judgement judgement =
      judge::judge(result.key.kind, comparison.measurement, comparison.tolerance, result.exact,
                   comparison.slices);
  result.outcome = judgement.outcome;
  result.reason = judgement.reason;
  return result;
}

void leave_out_rows_without_gradient(const RoutingInput& input, comparison::CompareReport& out) {
  const bool any = std::any_of(out.results.begin(), out.results.end(), [](const auto& result) {
    return result.outcome == Outcome::kDiverged &&
           (result.key.kind == Kind::kInput || result.key.kind == Kind::kOutput);
  });
  if (any) RowsWithoutGradient(input, out).run();
}

}  // namespace ttrace::routing
