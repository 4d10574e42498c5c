#include "localize/causes/profile.h"

#include <cmath>

#include "measure/sections.h"

namespace ttrace::localize {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

// The finaliser of SplitMix64.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

class Pass {
 public:
  explicit Pass(const tensor::Shape& shape) : shape_(shape) {
    std::uint64_t rows = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const bool sliced = shape[d] > 1 && shape[d] <= kMostSlices;
      profile.slices.emplace_back(sliced ? shape[d] : 0);
      if (sliced) sliced_.push_back(d);
      if (d + 1 < shape.size()) rows *= shape[d];
    }
    if (shape.size() > 2 && rows <= kMostRows) profile.rows.resize(rows);
    if (!shape.empty() && shape.back() <= kMostSlices) profile.column_sums.resize(shape.back());
  }

  void add(const tensor::Box& box, const std::vector<double>& r, const std::vector<double>& c) {
    tensor::Shape at = box.origin;
    const std::size_t last = shape_.size();
    for (std::size_t i = 0; i < r.size(); ++i, ++linear_) {
      if (std::isfinite(r[i]) && std::isfinite(c[i])) add(at, r[i], c[i]);
      for (std::size_t d = last; d-- > 0;) {
        if (++at[d] < box.origin[d] + box.extent[d]) break;
        at[d] = box.origin[d];
      }
    }
  }

  Profile profile;

 private:
  void add(const tensor::Shape& at, double r, double c) {
    const double d = c - r;
    const double d2 = d * d;
    profile.d2 += d2;
    if (c == 0 && r != 0) {
      ++profile.vanished;
      profile.vanished_d2 += d2;
    } else if (r == 0 && c != 0) {
      ++profile.appeared;
      profile.appeared_d2 += d2;
    } else {
      profile.other_d2 += d2;
    }
    if (!profile.rows.empty()) profile.rows[linear_ / shape_.back()] += d2;
    if (!profile.column_sums.empty()) profile.column_sums[at.back()] += d;
    // The place of an element within its slice is the sum of its other coordinates' hashes.
    std::uint64_t place = 0;
    for (std::size_t dim = 0; dim < at.size(); ++dim) place += hash(dim, at[dim]);
    for (const std::size_t dim : sliced_) {
      SliceSums& slice = profile.slices[dim][at[dim]];
      const std::uint64_t within = mixed(place - hash(dim, at[dim]));
      const std::size_t bucket = within % kSketchSize;
      const bool negative = (within >> 63) != 0;
      slice.reference[bucket] += negative ? -r : r;
      slice.candidate[bucket] += negative ? -c : c;
      slice.r2 += r * r;
      slice.c2 += c * c;
      slice.d2 += d2;
    }
  }

  static std::uint64_t hash(std::size_t dim, std::uint64_t index) {
    return (index + 1) * (kGolden + 2 * dim * 0x632be59bd9b4e019ULL);
  }

  const tensor::Shape& shape_;
  std::vector<std::size_t> sliced_;
  std::uint64_t linear_ = 0;
};

}  // namespace

double squared_distance(const SliceSketch& a, const SliceSketch& b) {
  double sum = 0;
  for (std::size_t i = 0; i < kSketchSize; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

Profile make_profile(const measure::TensorRef& reference, const measure::TensorRef& candidate) {
  const tensor::Shape& shape = reference.view->shape;
  Pass pass(shape);
  const auto of_reference = reference.open(measure::Replicas::kFirstOnly);
  const auto of_candidate = candidate.open(measure::Replicas::kFirstOnly);
  std::vector<double> r;
  std::vector<double> c;
  tensor::for_each_sub_box(tensor::whole(shape), measure::kReadElements,
                           [&](const tensor::Box& box) {
                             r.resize(tensor::volume(box));
                             c.resize(r.size());
                             of_reference->read(box, r);
                             of_candidate->read(box, c);
                             pass.add(box, r, c);
                           });
  return std::move(pass.profile);
}

}  // namespace ttrace::localize
