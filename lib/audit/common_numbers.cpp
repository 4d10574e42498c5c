#include "audit/common_numbers.h"

#include <algorithm>
#include <cmath>
#include <map>

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
  std::map<trace::TensorKey, const trace::TensorEntry*> entries;
  for (const trace::TensorEntry& entry : run.manifest().tensors) entries.emplace(entry.key, &entry);
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
    // Numbers that are not finite have a check of their own.
    const double value = specification::read_value({&run, entry->second}).data()[0];
    if (std::isfinite(value)) numbers[key].push_back({&tensor, value});
  }
  for (auto& [key, of_step] : numbers) compare(of_step);
}

}  // namespace ttrace::audit
