#include "audit/common_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "audit/measured_run.h"
#include "base/message.h"
#include "base/text.h"
#include "specification/evaluate/evaluate.h"

namespace ttrace::audit {
namespace {

// Relative to the number: scripts compute factors in float32.
constexpr double kSameNumber = 1e-6;

struct Number {
  AuditedTensor* tensor = nullptr;
  double value = 0;
};

void compare(std::vector<Number>& numbers) {
  if (numbers.size() < 2) return;
  std::vector<double> sorted;
  for (const Number& number : numbers) sorted.push_back(number.value);
  std::sort(sorted.begin(), sorted.end());
  const double middle = sorted[(sorted.size() - 1) / 2];
  for (const Number& number : numbers) {
    const double difference = std::abs(number.value - middle);
    AuditCheck check;
    check.expected_norm = std::abs(middle);
    check.allowed = kSameNumber * check.expected_norm;
    if (difference <= check.allowed) continue;
    check.operation = "common number";
    check.result = CheckResult::kInconsistent;
    check.expected = base::render(
        {"{number}, as in other micro-batches", {{"number", base::nine_digits(middle)}}});
    check.error = difference / check.expected_norm;
    check.bound = kSameNumber;
    check.reason = base::render(
        {"is {own}, and {others} in other micro-batches of the step",
         {{"own", base::nine_digits(number.value)}, {"others", base::nine_digits(middle)}}});
    number.tensor->checks.push_back(std::move(check));
  }
}

}  // namespace

void check_common_numbers(const trace::Source& run,
                          const specification::Specification& specification,
                          std::vector<AuditedTensor>& tensors) {
  const EntriesByKey entries = entries_of(run);
  std::map<trace::TensorKey, std::vector<Number>> numbers;  // by key without micro-batch
  for (AuditedTensor& tensor : tensors) {
    const auto number = specification.find(tensor.key);
    if (!number || !specification.tensors[*number].uniform || tensor.unreadable) continue;
    const auto entry = entries.find(tensor.key);
    if (entry == entries.end() || !entry->second->shape.empty() || entry->second->microbatches) {
      continue;
    }
    trace::TensorKey key = tensor.key;
    key.microbatch.reset();
    // check_factors() is about numbers that are not finite.
    const double value = specification::read_value({&run, entry->second}).data()[0];
    if (std::isfinite(value)) numbers[key].push_back({&tensor, value});
  }
  for (auto& [key, of_step] : numbers) compare(of_step);
}

void check_factors(const trace::Source& run, const specification::Specification* specification,
                   std::vector<AuditedTensor>& tensors) {
  const EntriesByKey entries = entries_of(run);
  for (AuditedTensor& tensor : tensors) {
    const bool factor = trace::is_factor_of_loss(tensor.key) ||
                        trace::is_inner_factor_of_loss(tensor.key) ||
                        trace::is_factor_of_gradients(tensor.key);
    const auto number = specification == nullptr ? std::nullopt : specification->find(tensor.key);
    const bool common = number && specification->tensors[*number].uniform;
    if ((!factor && !common) || tensor.unreadable || !tensor.norm) continue;
    const trace::TensorEntry& entry = *entries.at(tensor.key);
    if (tensor::element_count(entry.shape) != 1) continue;
    const double value = specification::read_value({&run, &entry}).data()[0];
    // A common number that counts something may be what losses are divided by.
    const bool has_sign = factor || !tensor::is_floating(entry.dtype);
    if (std::isfinite(value) && !(has_sign && value < 0)) continue;
    AuditCheck check;
    check.operation = "factor";
    check.result = CheckResult::kInconsistent;
    check.expected = base::render({"a finite number that is not negative", {}});
    check.error = std::numeric_limits<double>::infinity();
    check.reason = base::render(
        {std::isfinite(value)
             ? "is {value}, so the step climbs instead of descending; record the loss that it "
               "descends, with its sign"
             : "is {value}, and all that is multiplied or divided by it is lost",
         {{"value", std::isfinite(value) ? base::nine_digits(value) : base::short_number(value)}}});
    tensor.checks.push_back(std::move(check));
  }
}

}  // namespace ttrace::audit
