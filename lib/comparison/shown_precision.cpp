#include "comparison/shown_precision.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include "base/message.h"

namespace ttrace::comparison {
namespace {

using tensor::DType;

// Words of `run.precision`, the coarsest type first. For 8-bit recipes, the gradients' type counts.
constexpr std::array<std::pair<std::string_view, DType>, 10> kWords{{
    {"fp8", DType::kFloat8E5M2},
    {"float8", DType::kFloat8E5M2},
    {"bf16", DType::kBFloat16},
    {"bfloat16", DType::kBFloat16},
    {"fp16", DType::kFloat16},
    {"float16", DType::kFloat16},
    {"half", DType::kFloat16},
    {"tf32", DType::kTensorFloat32},
    {"fp32", DType::kFloat32},
    {"float32", DType::kFloat32},
}};

std::optional<DType> named_in(const std::string& precision) {
  std::string lower = precision;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  for (const auto& [word, dtype] : kWords) {
    if (lower.find(word) != std::string::npos) return dtype;
  }
  return std::nullopt;
}

bool is_coarser(DType one, DType other) { return tensor::epsilon(one) > tensor::epsilon(other); }

// Returns `claimed`, but no coarser than `shown`; nothing if `shown` is no coarser than `stored`.
std::optional<DType> limited(std::optional<DType> claimed, DType stored, DType shown) {
  if (!claimed || !is_coarser(*claimed, shown)) return claimed;
  return is_coarser(shown, stored) ? std::optional(shown) : std::nullopt;
}

// Whether the candidate claims a coarser type than both stored types and than the reference's
// claim.
bool claims_coarser_type(const layout::View& candidate, const layout::View* reference) {
  if (reference == nullptr || !candidate.computed_in) return false;
  return is_coarser(*candidate.computed_in, candidate.dtype) &&
         is_coarser(*candidate.computed_in, reference->dtype) &&
         is_coarser(*candidate.computed_in, reference->computed_in.value_or(reference->dtype));
}

// The view with `computed_in` limited to `shown`, and its entries too: the replay of updates reads
// those.
layout::ViewPtr limited_to(DType shown, const layout::ViewPtr& view) {
  layout::View changed = *layout::with_entries(view, [shown](const trace::TensorEntry& one) {
    trace::TensorEntry entry = one;
    entry.computed_in = limited(one.computed_in, one.dtype, shown);
    return entry;
  });
  changed.computed_in = limited(view->computed_in, view->dtype, shown);
  return std::make_shared<layout::View>(std::move(changed));
}

}  // namespace

std::optional<DType> coarsest_stored(const trace::Manifest& manifest) {
  std::optional<DType> coarsest;
  for (const trace::TensorEntry& entry : manifest.tensors) {
    if (!tensor::is_floating(entry.dtype)) continue;
    if (!coarsest || is_coarser(entry.dtype, *coarsest)) coarsest = entry.dtype;
  }
  return coarsest;
}

std::optional<DType> coarsest_shown(const trace::Manifest& manifest) {
  const std::optional<DType> stored = coarsest_stored(manifest);
  const std::optional<DType> named = named_in(manifest.run.precision);
  if (!stored || !named) return stored ? stored : named;
  return is_coarser(*stored, *named) ? stored : named;
}

std::vector<std::string> limit_computed_in(const trace::Manifest& candidate,
                                           const std::string& path, std::vector<Pair>& pairs) {
  const std::optional<DType> shown = coarsest_shown(candidate);
  if (!shown) return {};
  std::uint64_t limited = 0;
  std::string first;
  DType first_claimed = *shown;
  for (Pair& pair : pairs) {
    if (pair.candidate == nullptr || !claims_coarser_type(*pair.candidate, pair.reference.get()))
      continue;
    const DType claimed = *pair.candidate->computed_in;
    if (!is_coarser(claimed, *shown)) continue;
    if (limited++ == 0) {
      first = to_string(pair.key);
      first_claimed = claimed;
    }
    pair.candidate = limited_to(*shown, pair.candidate);
  }
  if (limited == 0) return {};
  return {
      base::render({"{run}: computed_in of {count:tensor} ({first}: {claimed}) is coarser than "
                    "anything that the run shows, so it counts as {shown}; name the type in "
                    "run.precision if the run computes in it",
                    {{"run", path},
                     {"count", limited},
                     {"first", first},
                     {"claimed", std::string(dtype_name(first_claimed))},
                     {"shown", std::string(dtype_name(*shown))}}})};
}

bool is_widened(const TensorComparison& result) {
  if (!result.comparison || result.exact || result.comparison->replay) return false;
  return result.candidate != nullptr &&
         claims_coarser_type(*result.candidate, result.reference.get());
}

}  // namespace ttrace::comparison
