#include <cmath>

#include "base/text.h"
#include "layout/mesh.h"
#include "localize/causes/trial.h"

namespace ttrace::localize {
namespace {

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
    if (!zeros.slices.empty() && d2 >= 0.99 * profile.vanished_d2) return zeros;
  }
  return std::nullopt;
}

bool is_range(const std::vector<std::uint64_t>& indices) {
  return indices.back() - indices.front() + 1 == indices.size();
}

std::string describe_zeros(const Case& the_case, const Zeros& zeros) {
  const std::uint64_t extent = the_case.reference.view->shape[zeros.dim];
  const std::uint64_t first = zeros.slices.front();
  const std::uint64_t last = zeros.slices.back();
  const auto ranks =
      ranks_in(the_case, slab(the_case.reference.view->shape, zeros.dim, first, last - first + 1));
  const bool some = !ranks.empty() && is_range(zeros.slices);
  return base::concat(zeros.slices.size(), " of ", extent, " indices along dimension ", zeros.dim,
                      first == last            ? " is zero, number "
                      : is_range(zeros.slices) ? " are zero, "
                                               : " are zero, the first is ",
                      first,
                      first < last && is_range(zeros.slices) ? base::concat(" to ", last) : "",
                      some ? base::concat(" on ", layout::describe_ranks(ranks)) : "");
}

}  // namespace

std::vector<Cause> find_zeroed(const Case& the_case) {
  const measure::TileStats& total = the_case.measurement->total;
  if (!the_case.exact && total.sum_c2 == 0 && total.finite > 0 && total.nonfinite_different == 0) {
    return {{"zeroed", "", "all of it is zero, and the reference is not", 0}};
  }
  const Profile* profile = profile_of(the_case);
  if (profile == nullptr || profile->vanished == 0) return {};
  const double left = the_case.exact ? (profile->other_d2 + profile->appeared_d2 > 0 ? 1.0 : 0.0)
                                     : std::sqrt(profile->other_d2 + profile->appeared_d2);
  if (!explains(the_case, left)) {
    reject(the_case, "zeroed", left);
    return {};
  }
  const auto zeros = zero_slices(*profile);
  const std::uint64_t extent = zeros ? the_case.reference.view->shape[zeros->dim] : 0;
  const bool tail = zeros && is_range(zeros->slices) && zeros->slices.back() + 1 == extent &&
                    zeros->slices.size() < extent;
  const std::string what =
      zeros ? describe_zeros(the_case, *zeros)
            : base::concat(profile->vanished, " of ", the_case.measurement->total.elements,
                           " elements are zero, and the reference's are not");
  return {{tail ? "truncated" : "zeroed",
           "",
           base::concat(what, " ", describe_left(the_case, left)),
           relative_to_reference(the_case, left),
           {{"which", what}}}};
}

}  // namespace ttrace::localize
