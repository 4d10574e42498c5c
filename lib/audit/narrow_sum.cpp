#include "audit/narrow_sum.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "audit/module_values.h"
#include "base/message.h"
#include "comparison/accumulation_error.h"
#include "localize/causes/trial.h"
#include "tensor/box.h"
#include "tensor/dtype.h"

namespace ttrace::audit {
namespace {

using trace::Kind;
using trace::TensorEntry;

constexpr double kMostElsewhere = 0.1;  // of the error: how far off the exact sum may be
// Threads that are tried, as long as the rows that are read remain within reason.
constexpr std::array<std::uint64_t, 30> kThreads{1,  2,  3,  4,  5,  6,  7,  8,   9,   10,
                                                 11, 12, 13, 14, 15, 16, 20, 24,  28,  32,
                                                 36, 40, 48, 56, 64, 80, 96, 112, 128, 192};
constexpr std::uint64_t kMostRead = std::uint64_t{1} << 28;

// The 16-bit type that the rows are stored in, if it is no finer than that of their sum.
std::optional<tensor::DType> accumulator_of(const TensorEntry& rows, const TensorEntry& sum) {
  const bool half = rows.dtype == tensor::DType::kBFloat16 || rows.dtype == tensor::DType::kFloat16;
  if (!half || tensor::epsilon(rows.dtype) < tensor::epsilon(sum.dtype)) return std::nullopt;
  return rows.dtype;
}

}  // namespace

std::optional<answer::Cause> find_narrow_sum(const trace::Source& run, const TensorEntry& entry,
                                             const measure::TensorRef& expected,
                                             const measure::Backend& backend) {
  const std::size_t dot = entry.key.name.rfind('.');
  if (entry.key.kind != Kind::kParamGrad || entry.shape.size() != 1 || dot == std::string::npos) {
    return std::nullopt;
  }
  const std::string module = entry.key.name.substr(0, dot);
  const TensorEntry* gradient = only_value_of(run.manifest(), entry.key, Kind::kGradOutput, module);
  if (gradient == nullptr || gradient->shape.empty() || gradient->shape.back() != entry.shape[0]) {
    return std::nullopt;
  }
  const auto accumulator = accumulator_of(*gradient, entry);
  if (!accumulator) return std::nullopt;
  const TensorEntry* input = only_value_of(run.manifest(), entry.key, Kind::kInput, module);
  if (input != nullptr && input->shape != gradient->shape) input = nullptr;

  const measure::TensorRef gradients(&run, gradient);
  std::optional<measure::TensorRef> inputs;
  if (input != nullptr) inputs.emplace(&run, input);
  const std::vector<double> recorded = values_of({&run, &entry});
  const std::vector<double> right = values_of(expected);
  const double error = distance(recorded, right);
  const std::uint64_t elements = tensor::element_count(gradient->shape).value_or(0);
  const std::uint64_t rows = elements / std::max<std::uint64_t>(entry.shape[0], 1);
  std::uint64_t read = 0;
  for (const std::uint64_t threads : kThreads) {
    if (threads > rows || (read += elements) > kMostRead) break;
    const std::vector<measure::ColumnSums> sums = comparison::sum_rows(
        backend, gradients, inputs ? &*inputs : nullptr, *accumulator, threads);
    const auto nearest =
        std::min_element(sums.begin(), sums.end(), [&](const auto& a, const auto& b) {
          return distance(a.exact, right) < distance(b.exact, right);
        });
    // Otherwise it is another kind of sum, or values are not finite.
    if (!(distance(nearest->exact, right) <= kMostElsewhere * error)) return std::nullopt;
    const double left = distance(recorded, nearest->stepwise);
    if (left <= localize::kMostLeft * error) {
      const std::string type(dtype_short_name(*accumulator));
      base::Message evidence{
          left == 0 ? "accumulated in {type}: the sum over {rows} rows, rounded to {type} after "
                      "every row[ by each of {threads} threads], is the recorded value to the bit"
                    : "accumulated in {type}: the sum over {rows} rows, rounded to {type} after "
                      "every row[ by each of {threads} threads], leaves {percent} % of the error",
          {{"type", type}, {"rows", rows}, {"percent", 100 * left / error}}};
      if (threads > 1) evidence.values.emplace_back("threads", std::uint64_t{threads});
      return answer::cause_of(
          "narrow_accumulator", "", evidence,
          left == 0 ? 0 : left / distance(right, std::vector<double>(right.size(), 0)));
    }
    if (threads == 1 &&
        !(error <= comparison::kMostOfStepwise * distance(nearest->stepwise, right)))
      break;
  }
  return std::nullopt;
}

}  // namespace ttrace::audit
