#include <cmath>

#include "base/message.h"
#include "layout/mesh.h"
#include "localize/causes/trial.h"

namespace ttrace::localize {
namespace {

constexpr double kMostOfVanished = 0.99;  // of their squared error, in whole slices

struct Zeros {
  std::size_t dim = 0;
  std::vector<std::uint64_t> slices;  // that are zero in the candidate alone
};

// The dimension along which whole slices hold all of the error.
std::optional<Zeros> zero_slices(const Profile& profile) {
  for (std::size_t dim = 0; dim < profile.slices.size(); ++dim) {
    Zeros zeros{dim, {}};
    double d2 = 0;
    for (std::size_t i = 0; i < profile.slices[dim].size(); ++i) {
      const SliceSums& slice = profile.slices[dim][i];
      if (slice.c2 != 0 || !(slice.r2 > 0)) continue;
      zeros.slices.push_back(i);
      d2 += slice.d2;
    }
    if (!zeros.slices.empty() && d2 >= kMostOfVanished * profile.vanished_d2) return zeros;
  }
  return std::nullopt;
}

bool is_range(const std::vector<std::uint64_t>& indices) {
  return indices.back() - indices.front() + 1 == indices.size();
}

base::Message describe_zeros(const Case& the_case, const Zeros& zeros) {
  const std::uint64_t extent = the_case.reference.view->shape[zeros.dim];
  const std::uint64_t first = zeros.slices.front();
  const std::uint64_t last = zeros.slices.back();
  const auto ranks =
      ranks_in(the_case, slab(the_case.reference.view->shape, zeros.dim, first, last - first + 1));
  base::Message found{
      first == last
          ? "{zero} of {extent} indices along dimension {dim} is zero, number {first}[ on "
            "{zero_on}]"
      : is_range(zeros.slices)
          ? "{zero} of {extent} indices along dimension {dim} are zero, {first} to {last}[ on "
            "{zero_on}]"
          : "{zero} of {extent} indices along dimension {dim} are zero, the first is {first}",
      {{"zero", std::uint64_t{zeros.slices.size()}},
       {"extent", extent},
       {"dim", std::uint64_t{zeros.dim}},
       {"first", first},
       {"last", last}}};
  if (!ranks.empty()) found.values.emplace_back("zero_on", layout::describe_ranks(ranks));
  return found;
}

}  // namespace

std::vector<Cause> find_zeroed(const Case& the_case) {
  const measure::TileStats& total = the_case.measurement->total;
  if (!the_case.exact && total.sum_c2 == 0 && total.finite > 0 && total.nonfinite_different == 0) {
    return {cause_of(the_case, "zeroed", "", {"all of it is zero, and {reference} is not", {}}, 0)};
  }
  const Profile* profile = profile_of(the_case);
  if (profile == nullptr || profile->vanished == 0) return {};
  const double left = the_case.exact ? (profile->other_d2 + profile->appeared_d2 > 0 ? 1.0 : 0.0)
                                     : std::sqrt(profile->other_d2 + profile->appeared_d2);
  if (!explains(the_case, left, {1, 0, true})) {
    reject(the_case, "zeroed", left);
    return {};
  }
  const auto zeros = zero_slices(*profile);
  const std::uint64_t extent = zeros ? the_case.reference.view->shape[zeros->dim] : 0;
  const bool tail = zeros && is_range(zeros->slices) && zeros->slices.back() + 1 == extent &&
                    zeros->slices.size() < extent;
  const base::Message found =
      zeros ? describe_zeros(the_case, *zeros)
            : base::Message{"{zero} of {elements} elements are zero, and {reference}'s are not",
                            {{"zero", profile->vanished},
                             {"elements", the_case.measurement->total.elements}}};
  return {cause_that_leaves(the_case, left, tail ? "truncated" : "zeroed", "", found,
                            {{"which", rendered_for(the_case, found)}})};
}

}  // namespace ttrace::localize
