#include "audit/read_numbers.h"

#include <cmath>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "specification/evaluate/evaluate.h"
#include "specification/expression.h"
#include "tensor/dtype.h"

namespace ttrace::audit {
namespace {

// A number that a run read in 16 bits may have been rounded several times.
constexpr double kRoundings = 16;

}  // namespace

ReadNumbers::ReadNumbers(Find find, Read read, const measure::ExecutionContext& context)
    : find_(std::move(find)), read_(std::move(read)), context_(context) {}

bool ReadNumbers::differ(const specification::Specification& specification,
                         const trace::TensorKey& key) {
  const auto [known, fresh] = known_.try_emplace({key.step, key.microbatch}, false);
  if (!fresh) return known->second;
  for (std::size_t number = 0; number < specification.tensors.size(); ++number) {
    if (!specification.tensors[number].number) continue;
    if (is_other(specification, number, key)) return known->second = true;
  }
  return false;
}

bool ReadNumbers::is_other(const specification::Specification& specification, std::size_t number,
                           const trace::TensorKey& key) const {
  const auto found = specification::expression_of(
      specification, number, [&](std::size_t other) { return find_(other, key) != nullptr; });
  const auto* expression = std::get_if<specification::Expression>(&found);
  if (expression == nullptr) return false;
  const specification::SpecifiedTensor& tensor = specification.tensors[number];
  try {
    std::vector<specification::Value> leaves;
    for (const specification::Leaf& leaf : expression->leaves) {
      const trace::TensorEntry* entry = find_(leaf.tensor, key);
      leaves.push_back(entry != nullptr
                           ? read_(*entry)
                           : specification::constant_value(specification.tensors[leaf.tensor]));
    }
    const double read =
        specification::evaluate(*expression, leaves, std::nullopt, context_).to_dense().data()[0];
    const double expected = *tensor.number;
    if (std::isnan(read) || std::isnan(expected)) return std::isnan(read) != std::isnan(expected);
    if (std::isinf(read) || std::isinf(expected)) return read != expected;
    const double rounding =
        tensor::is_floating(tensor.dtype) ? kRoundings * tensor::epsilon(tensor.dtype) : 0;
    return read != expected && !(std::abs(read - expected) <= rounding * std::abs(expected));
  } catch (const base::InputError&) {
    return true;  // its type cannot hold what the specification says
  }
}

}  // namespace ttrace::audit
