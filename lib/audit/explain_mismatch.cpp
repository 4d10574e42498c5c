#include "audit/explain_mismatch.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "audit/narrow_coefficients.h"
#include "audit/narrow_sum.h"
#include "base/error.h"
#include "base/message.h"
#include "base/text.h"
#include "layout/view.h"
#include "localize/causes/cause.h"
#include "measure/fingerprints.h"
#include "measure/measure.h"

namespace ttrace::audit {
namespace {

constexpr double kFactorUncertainty = 1e-6;  // relative, of a factor in fp32

class ValueReader : public measure::TensorReader {
 public:
  explicit ValueReader(std::shared_ptr<const specification::Value> value)
      : value_(std::move(value)) {}

  void read(const tensor::Box& box, std::span<double> out) override {
    tensor::copy_common(tensor::whole(value_->shape()), std::as_bytes(value_->elements()), box,
                        std::as_writable_bytes(out), sizeof(double));
  }
  void read_integers(const tensor::Box& box, std::span<std::int64_t> out) override {
    std::vector<double> numbers(out.size());
    read(box, numbers);
    std::transform(numbers.begin(), numbers.end(), out.begin(),
                   [](double number) { return static_cast<std::int64_t>(number); });
  }
  std::vector<measure::RankBoxes> rank_boxes() const override {
    return {{{tensor::whole(value_->shape())}, {}, ""}};
  }
  std::optional<measure::ElementPlace> locate(const tensor::Shape&) const override {
    return std::nullopt;
  }
  void for_each_check(const measure::VisitCheck&) const override {}
  std::uint64_t bytes_read() const override { return 0; }

 private:
  std::shared_ptr<const specification::Value> value_;
};

// Ranks whose share of the squared error is more than 1.5 times their share of the elements; empty
// if those are all ranks.
std::vector<std::uint64_t> ranks_that_stand_out(const measure::Measurement& measured) {
  constexpr double kStandsOut = 1.5;
  std::set<std::uint64_t> all;
  std::set<std::uint64_t> found;
  for (const measure::BlockStats& block : measured.blocks) {
    all.insert(block.owner->ranks.begin(), block.owner->ranks.end());
    const double elements =
        static_cast<double>(block.stats.elements) /
        static_cast<double>(std::max<std::uint64_t>(measured.total.elements, 1));
    if (block.stats.sum_d2 > kStandsOut * elements * measured.total.sum_d2) {
      found.insert(block.owner->ranks.begin(), block.owner->ranks.end());
    }
  }
  if (found == all) return {};
  return {found.begin(), found.end()};
}

// Of the factor that a script multiplies a loss by: how many times it is what it should be. One
// number is a multiple of any other, so no other tensor of one element gets such a cause.
std::vector<answer::Cause> find_factor(const measure::Measurement& measured) {
  const auto fit = measure::fit_scale(measured.total);
  if (!fit || fit->scale == 0 || !std::isfinite(fit->scale)) return {};
  return {
      answer::cause_of("scaled", "",
                       {"{multiple} times what the reference's script multiplies the loss by",
                        {{"multiple", localize::describe_factor(fit->scale, kFactorUncertainty)}}},
                       0,
                       {{"factor", fit->scale},
                        {"times", localize::shortest_factor(fit->scale, kFactorUncertainty)}})};
}

comparison::TensorComparison record_of(const trace::TensorEntry& entry) {
  comparison::TensorComparison record;
  record.key = entry.key;
  record.shape = entry.shape;
  record.dtype = entry.dtype;
  record.candidate = layout::view_of(entry);
  return record;
}

}  // namespace

measure::TensorRef expected_tensor(const trace::Source& run, const trace::TensorEntry& entry,
                                   const specification::Value& value) {
  const auto plain = std::make_shared<trace::TensorEntry>(entry);
  plain->placements.clear();
  plain->held_at.clear();
  layout::View view = *layout::view_of(entry);
  view.how = layout::Stored{plain};
  measure::TensorRef tensor(&run, std::make_shared<const layout::View>(std::move(view)));
  const auto dense = std::make_shared<const specification::Value>(value.to_dense());
  tensor.opener = [dense](measure::Replicas) { return std::make_unique<ValueReader>(dense); };
  return tensor;
}

std::string reason_of_mismatch(const specification::ExpressionJudgement& judged,
                               const AuditedTensor& tensor) {
  if (judged.non_finite > 0) {
    return base::render(
        {"does not follow from what it was computed from: {count} of {elements:element} are not "
         "finite on one side only",
         {{"count", judged.non_finite},
          {"elements", tensor::element_count(tensor.shape).value_or(0)}}});
  }
  if (judged.unequal > judged.undecided) {
    return base::render({"does not follow from what it was computed from: {count} integers differ",
                         {{"count", judged.unequal}}});
  }
  if (judged.norm_share <= 1 && judged.small_elements_beyond > 0 && judged.rows_beyond == 0) {
    return base::render(
        {"does not follow from what it was computed from in {count:element} that are much "
         "smaller than others of their row",
         {{"count", judged.small_elements_beyond}}});
  }
  if (judged.norm_share <= 1 && judged.rows_beyond > 0) {
    return base::render({"does not follow from what it was computed from in {count:row}",
                         {{"count", judged.rows_beyond}}});
  }
  if (judged.norm_share <= 1 && judged.scale_share > 1) {
    return base::render(
        {"does not follow from what it was computed from in its scale: {scale} times what was "
         "expected",
         {{"scale", base::nine_digits(judged.scale)}}});
  }
  return base::render({"does not follow from what it was computed from", {}});
}

bool explain_unmoved(const trace::Source& run, const trace::TensorEntry* before,
                     const trace::TensorEntry& entry, AuditedTensor& tensor) {
  if (before == nullptr || !measure::same_numbers({&run, before}, {&run, &entry})) return false;
  tensor.causes = {answer::cause_of("stale", "",
                                    {"it is bit for bit what it was before the step", {}}, 0,
                                    {{"earlier", base::render({"from before the step", {}})}})};
  return true;
}

void explain_mismatch(const trace::Source& run, const trace::TensorEntry& entry,
                      const measure::TensorRef& expected, double allowed,
                      const measure::Backend& backend, AuditCheck& check, AuditedTensor& tensor,
                      const std::vector<const trace::TensorEntry*>& terms) {
  try {
    const measure::TensorRef recorded(&run, &entry);
    const measure::Measurement measured = measure::measure(backend, expected, recorded, nullptr);
    if (check.ranks.empty()) check.ranks = ranks_that_stand_out(measured);
    localize::Case the_case;
    the_case.backend = &backend;
    the_case.reference = expected;
    the_case.candidate = recorded;
    the_case.measurement = &measured;
    the_case.is_expected_value = true;
    the_case.tolerance.rule = judge::Rule::kReplay;
    the_case.tolerance.epsilon = judge::shared_epsilon(*expected.view, *recorded.view);
    the_case.tolerance.multiplier = 1;
    the_case.tolerance.unit_norm = allowed;
    tensor.rejected.clear();
    the_case.rejected = &tensor.rejected;
    tensor.causes = localize::find_causes(the_case);
    const bool unexplained =
        std::all_of(tensor.causes.begin(), tensor.causes.end(),
                    [](const answer::Cause& cause) { return cause.name == "mask_or_rows"; });
    if (unexplained && !terms.empty()) {
      std::vector<comparison::TensorComparison> records;
      for (const trace::TensorEntry* term : terms) records.push_back(record_of(*term));
      const comparison::TensorComparison own = record_of(entry);
      const localize::Related related(records, run, run);
      the_case.related = &related;
      the_case.result = &own;
      tensor.rejected.clear();
      tensor.causes = localize::find_causes(the_case);
    }
    if (tensor.causes.empty() && trace::is_factor_of_loss(entry.key)) {
      tensor.causes = find_factor(measured);
    }
    auto narrow = find_narrow_sum(run, entry, expected, backend);
    if (!narrow) narrow = find_narrow_coefficients(run, entry, expected);
    if (narrow && localize::is_supported(the_case, *narrow)) {
      const auto place =
          std::find_if(tensor.causes.begin(), tensor.causes.end(), [&](const auto& other) {
            return other.name == "mask_or_rows" || other.unexplained > narrow->unexplained;
          });
      tensor.causes.insert(place, std::move(*narrow));
    }
  } catch (const base::InputError&) {
    // It could be read a moment ago. The finding stands without a cause.
  }
}

}  // namespace ttrace::audit
