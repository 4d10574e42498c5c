#include <algorithm>
#include <cmath>

#include "measure/cpu/add_tile.h"
#include "measure/cpu/requests.h"
#include "measure/cpu/tiles.h"

namespace ttrace::measure {
namespace {

// Sets an element to zero in all three where it is not finite in one: it then adds nothing to any
// sum. Returns the number of these elements.
std::uint64_t leave_out_nonfinite(std::span<double> a, std::span<double> b, std::span<double> c) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i]) && std::isfinite(b[i]) && std::isfinite(c[i])) continue;
    a[i] = b[i] = c[i] = 0;
    ++count;
  }
  return count;
}

}  // namespace

void compute(const Kernel& kernel, const TripleRequest& request) {
  const tensor::Box& box = request.truth.box;
  TileStats of_candidate;
  TileStats of_reference;
  TileNumbers t;
  TileNumbers r;
  TileNumbers c;
  const std::uint64_t count = tensor::volume(box);
  for (std::uint64_t first = 0; first < count; first += kTileElements) {
    const auto here =
        static_cast<std::size_t>(std::min<std::uint64_t>(kTileElements, count - first));
    const std::span<double> truth(t.data(), here);
    const std::span<double> reference(r.data(), here);
    const std::span<double> candidate(c.data(), here);
    decode(request.truth.values, first, truth);
    decode(request.reference.values, first, reference);
    decode(request.candidate.values, first, candidate);
    const std::uint64_t left_out = leave_out_nonfinite(truth, reference, candidate);
    request.sums->left_out += left_out;
    request.sums->elements += here - left_out;
    add_numbers(kernel, truth, candidate, box, first, of_candidate);
    add_numbers(kernel, truth, reference, box, first, of_reference);
  }
  request.sums->of_candidate.merge(of_candidate);
  request.sums->of_reference.merge(of_reference);
}

}  // namespace ttrace::measure
