#include "comparison/shown_precision.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "base/message.h"

namespace ttrace::comparison {
namespace {

using tensor::DType;

// Short names of types. `run.precision` may also have those of the format ("bfloat16").
constexpr std::array<std::pair<std::string_view, DType>, 7> kShortNames{{
    {"fp8", DType::kFloat8E5M2},  // the gradients' type counts for a recipe
    {"float8", DType::kFloat8E5M2},
    {"bf16", DType::kBFloat16},
    {"fp16", DType::kFloat16},
    {"half", DType::kFloat16},
    {"fp32", DType::kFloat32},
    {"fp64", DType::kFloat64},
}};

std::optional<DType> type_named(std::string_view name) {
  constexpr std::string_view kModule = "torch.";
  if (name.starts_with(kModule)) name.remove_prefix(kModule.size());
  for (const auto& [known, dtype] : kShortNames) {
    if (name == known) return dtype;
  }
  const auto dtype = tensor::parse_precision(name);
  return dtype && tensor::is_floating(*dtype) ? dtype : std::nullopt;
}

// The types that `run.precision` names, a list of names with commas. What is no name is for people,
// and nothing is read from it: "not fp8" is no claim of fp8.
std::vector<DType> types_named(const std::string& precision) {
  constexpr std::string_view kBlank = " \t\n\r";
  std::vector<DType> types;
  for (std::size_t begin = 0; begin <= precision.size();) {
    const std::size_t end = std::min(precision.find(',', begin), precision.size());
    const std::string_view item(precision.data() + begin, end - begin);
    begin = end + 1;
    const std::size_t first = item.find_first_not_of(kBlank);
    if (first == std::string_view::npos) continue;
    std::string name(item.substr(first, item.find_last_not_of(kBlank) + 1 - first));
    std::transform(name.begin(), name.end(), name.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    if (const auto dtype = type_named(name)) types.push_back(*dtype);
  }
  return types;
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

bool names_fp8(const std::string& precision) {
  const std::vector<DType> types = types_named(precision);
  return std::any_of(types.begin(), types.end(), [](DType dtype) {
    return dtype == DType::kFloat8E4M3 || dtype == DType::kFloat8E5M2;
  });
}

std::optional<DType> coarsest_shown(const trace::Manifest& manifest) {
  std::optional<DType> coarsest = coarsest_stored(manifest);
  for (const DType dtype : types_named(manifest.run.precision)) {
    if (!coarsest || is_coarser(dtype, *coarsest)) coarsest = dtype;
  }
  return coarsest;
}

std::optional<DType> coarsest_computed(const trace::Manifest& manifest) {
  std::optional<DType> coarsest = coarsest_shown(manifest);
  const auto add = [&coarsest](std::optional<DType> dtype) {
    if (dtype && (!coarsest || is_coarser(*dtype, *coarsest))) coarsest = dtype;
  };
  for (const trace::TensorEntry& entry : manifest.tensors) add(entry.computed_in);
  add(manifest.run.products.matmul);
  add(manifest.run.products.convolution);
  return coarsest;
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
                    "run.precision (\"bf16\", \"fp32, tf32\") if the run computes in it",
                    {{"run", path},
                     {"count", limited},
                     {"first", first},
                     {"claimed", std::string(dtype_name(first_claimed))},
                     {"shown", std::string(dtype_name(*shown))}}})};
}

bool is_widened(const TensorComparison& result) {
  if (!result.comparison || result.exact || result.stored_before || result.comparison->replay) {
    return false;
  }
  return result.candidate != nullptr &&
         claims_coarser_type(*result.candidate, result.reference.get());
}

}  // namespace ttrace::comparison
