#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "localize/causes/trial.h"

namespace ttrace::localize {
namespace {

constexpr std::uint64_t kFewestRows = 4;
// A parameter is named if a multiple of it explains the offset up to this share of the offset.
constexpr double kMostOfOffset = 0.05;

struct Multiple {
  std::string name;
  double factor = 0;
};

// The parameter of the tensor's module of which the offset is a multiple.
std::optional<Multiple> parameter_of(const Case& the_case, const std::vector<double>& offset) {
  if (the_case.related == nullptr || the_case.result == nullptr) return std::nullopt;
  const trace::TensorKey& key = the_case.result->key;
  const std::string module = std::string(trace::module_of_value(key.name)) + ".";
  for (const auto* record : the_case.related->alike(trace::Kind::kParam, {offset.size()})) {
    const bool own = record->key.step == key.step && record->key.name.starts_with(module);
    if (!own || record->reference == nullptr) continue;
    std::vector<double> values(offset.size());
    the_case.related->reference(*record)
        .open(measure::Replicas::kFirstOnly)
        ->read(tensor::whole({offset.size()}), values);
    double dot = 0;
    double of_values = 0;
    double of_offset = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      dot += values[i] * offset[i];
      of_values += values[i] * values[i];
      of_offset += offset[i] * offset[i];
    }
    if (!(of_values > 0)) continue;
    const double left2 = of_offset - dot * dot / of_values;
    if (left2 <= kMostOfOffset * kMostOfOffset * of_offset) {
      return Multiple{record->key.name, dot / of_values};
    }
  }
  return std::nullopt;
}

// Whether the rows of the reference differ, along a dimension of them, by much more than `left`.
// However large the row is that was added: of rows that hardly differ, any row explains the rest.
bool rows_vary(const Profile& profile, double left) {
  constexpr double kLeastVariation = 10;
  const double least = kLeastVariation * left;
  for (std::size_t dim = 0; dim + 1 < profile.slices.size(); ++dim) {
    const std::vector<SliceSums>& slices = profile.slices[dim];
    double farthest = 0;
    for (const SliceSums& slice : slices) {
      farthest = std::max(farthest, squared_distance(slice.reference, slices.front().reference));
    }
    if (farthest * static_cast<double>(slices.size()) > least * least) return true;
  }
  return false;
}

// Rounded to an integer if it is near one, as where a bias was added several times.
double rounded_multiple(double factor) {
  constexpr double kMostOff = 1e-3;
  const double whole = std::round(factor);
  const bool is_whole = std::abs(factor - whole) <= kMostOff && whole != 0;
  return is_whole ? whole : factor;
}

std::string describe_multiple_of(const Multiple& of) {
  const double times = rounded_multiple(of.factor);
  if (base::short_number(times) == "1") return of.name;
  return base::render({"{multiple} times {of}", {{"multiple", times}, {"of", of.name}}});
}

}  // namespace

std::vector<Cause> find_offset(const Case& the_case) {
  const Profile* profile = the_case.exact ? nullptr : profile_of(the_case);
  if (profile == nullptr || profile->column_sums.empty()) return {};
  const std::uint64_t rows = the_case.measurement->total.elements / profile->column_sums.size();
  if (rows < kFewestRows) return {};
  std::vector<double> offset = profile->column_sums;
  double norm2 = 0;
  for (double& value : offset) {
    value /= static_cast<double>(rows);
    norm2 += value * value;
  }
  const double left = std::sqrt(std::max(0.0, profile->d2 - static_cast<double>(rows) * norm2));
  const double rounding =
      the_case.tolerance.epsilon * measure::reference_norm(the_case.measurement->total);
  // Of equal rows the difference is always one row.
  if (!rows_vary(*profile, std::max(left, rounding)) ||
      !explains(the_case, left, {1, offset.size()})) {
    reject(the_case, "offset", left);
    return {};
  }
  const auto of = parameter_of(the_case, offset);
  base::Message evidence{"the same row is added to all {rows} rows[: {multiple} times {parameter}]",
                         {{"rows", rows}}};
  if (!of) return {cause_that_leaves(the_case, left, "offset", "", evidence)};
  evidence.values.emplace_back("multiple", rounded_multiple(of->factor));
  evidence.values.emplace_back("parameter", of->name);
  return {cause_that_leaves(the_case, left, "offset", "", evidence,
                            {{"added", describe_multiple_of(*of)}})};
}

}  // namespace ttrace::localize
