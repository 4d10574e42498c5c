#include "measure/fingerprints.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tensor/codec.h"

namespace ttrace::measure {
namespace {

// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): every bit of the result depends on
// every bit of `x`.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

// Hashes one value and its place in the slice. The hash of a slice is their sum, so the order of
// reading does not matter.
std::uint64_t placed(std::uint64_t bits, std::uint64_t place) {
  return mixed(bits + mixed(kGolden * (place + 1)));
}

std::uint64_t bits_of(double value) { return std::bit_cast<std::uint64_t>(value + 0.0); }

double norm_of(const Sketch& sketch) {
  double sum = 0;
  for (const double value : sketch) sum += value * value;
  return std::sqrt(sum);
}

// Reads two tensors of one shape box by box, until `holds` is false of their values.
template <typename Holds>
bool all_boxes(const TensorRef& a, const TensorRef& b, const Holds& holds) {
  const auto reader_a = a.open(Replicas::kFirstOnly);
  const auto reader_b = b.open(Replicas::kFirstOnly);
  bool all = true;
  std::vector<double> values_a;
  std::vector<double> values_b;
  tensor::for_each_sub_box(tensor::whole(a.view->shape), kReadElements,
                           [&](const tensor::Box& box) {
                             if (!all) return;
                             values_a.resize(tensor::volume(box));
                             values_b.resize(values_a.size());
                             reader_a->read(box, values_a);
                             reader_b->read(box, values_b);
                             all = holds(values_a, values_b);
                           });
  return all;
}

}  // namespace

std::uint64_t hash_of(const std::vector<std::uint64_t>& hashes) {
  std::uint64_t hash = hashes.size();
  for (const std::uint64_t one : hashes) hash = mixed(hash * kGolden + one);
  return hash;
}

SliceHashes slice_hashes(const TensorRef& tensor, tensor::DType precision) {
  const tensor::Shape& shape = tensor.view->shape;
  const bool floating = tensor::is_floating(tensor.view->dtype);
  std::uint64_t inner = 1;
  for (std::size_t d = 1; d < shape.size(); ++d) inner *= shape[d];
  SliceHashes hashes;
  if (!shape.empty()) hashes.by_dim.emplace_back(shape[0]);
  if (shape.size() == 2) hashes.by_dim.emplace_back(shape[1]);
  std::uint64_t scalar = 0;
  std::uint64_t at = 0;
  std::vector<double> values;
  const auto reader = tensor.open(Replicas::kFirstOnly);
  tensor::for_each_sub_box(tensor::whole(shape), kReadElements, [&](const tensor::Box& box) {
    values.resize(tensor::volume(box));
    reader->read(box, values);
    for (const double value : values) {
      const std::uint64_t bits = bits_of(floating ? tensor::round_to(precision, value) : value);
      const std::uint64_t row = at / inner;
      const std::uint64_t column = at % inner;
      if (shape.empty()) scalar = placed(bits, 0);
      if (!shape.empty()) hashes.by_dim[0][row] += placed(bits, column);
      if (shape.size() == 2) hashes.by_dim[1][column] += placed(bits, row);
      ++at;
    }
  });
  std::vector<std::uint64_t> all(shape.begin(), shape.end());
  all.push_back(shape.empty() ? scalar : hash_of(hashes.by_dim[0]));
  hashes.whole = hash_of(all);
  return hashes;
}

Sketch sketch_of(const TensorRef& tensor) {
  Sketch sketch{};
  std::uint64_t at = 0;
  std::vector<double> values;
  const auto reader = tensor.open(Replicas::kFirstOnly);
  const tensor::Box whole = tensor::whole(tensor.view->shape);
  tensor::for_each_sub_box(whole, kReadElements, [&](const tensor::Box& box) {
    values.resize(tensor::volume(box));
    reader->read(box, values);
    for (const double value : values) {
      const std::uint64_t hash = mixed(++at * kGolden);
      sketch[hash % sketch.size()] += (hash >> 63) != 0 ? -value : value;
    }
  });
  return sketch;
}

double sketch_distance(const Sketch& a, const Sketch& b) {
  Sketch difference{};
  for (std::size_t i = 0; i < a.size(); ++i) difference[i] = a[i] - b[i];
  const double larger = std::max(norm_of(a), norm_of(b));
  const double distance = norm_of(difference);
  if (!std::isfinite(larger) || !std::isfinite(distance)) {
    return std::numeric_limits<double>::infinity();
  }
  return larger > 0 ? distance / larger : 0;
}

bool same_values(const TensorRef& a, const TensorRef& b) {
  const tensor::DType coarser = tensor::epsilon(a.view->dtype) > tensor::epsilon(b.view->dtype)
                                    ? a.view->dtype
                                    : b.view->dtype;
  return all_boxes(a, b, [&](const std::vector<double>& values_a, const auto& values_b) {
    for (std::size_t i = 0; i < values_a.size(); ++i) {
      const double x = tensor::round_to(coarser, values_a[i]);
      const double y = tensor::round_to(coarser, values_b[i]);
      if (x != y && !(std::isnan(x) && std::isnan(y))) return false;
    }
    return true;
  });
}

bool same_numbers(const TensorRef& a, const TensorRef& b) {
  return a.view->shape == b.view->shape &&
         all_boxes(a, b,
                   [](const auto& values_a, const auto& values_b) { return values_a == values_b; });
}

}  // namespace ttrace::measure
