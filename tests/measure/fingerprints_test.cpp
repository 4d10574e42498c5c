#include "measure/fingerprints.h"

#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::measure::fingerprints_test {
namespace {

using tensor::DType;
using test::make_entry;
using test::MemoryTrace;

const trace::TensorEntry kWide = make_entry("wide", {3, 2});
const trace::TensorEntry kTall = make_entry("tall", {2, 3});
const trace::TensorEntry kPart = make_entry("part", {2, 2});

MemoryTrace made() {
  MemoryTrace trace;
  trace.put(kWide, {1, 2, 3, 4, 5, 6});
  trace.put(kTall, {1, 3, 5, 2, 4, 6});  // its transpose
  trace.put(kPart, {3, 4, 5, 6});        // its last rows
  return trace;
}

TEST_CASE("rows are known wherever they lie, columns as rows of the transpose") {
  const MemoryTrace trace = made();
  const SliceHashes wide = slice_hashes({&trace, &kWide}, DType::kFloat32);
  const SliceHashes tall = slice_hashes({&trace, &kTall}, DType::kFloat32);
  const SliceHashes part = slice_hashes({&trace, &kPart}, DType::kFloat32);
  REQUIRE(wide.by_dim.size() == 2);
  CHECK(wide.by_dim[0] == tall.by_dim[1]);
  CHECK(wide.by_dim[1] == tall.by_dim[0]);
  CHECK(part.by_dim[0] == std::vector{wide.by_dim[0][1], wide.by_dim[0][2]});
  CHECK(wide.by_dim[0][0] != wide.by_dim[0][1]);
  CHECK(wide.whole != tall.whole);
}

TEST_CASE("values count as they are in the coarser precision, and places count") {
  MemoryTrace trace;
  const trace::TensorEntry a = make_entry("a", {2});
  const trace::TensorEntry b = make_entry("b", {2});
  const trace::TensorEntry c = make_entry("c", {2});
  trace.put(a, {1, 2});
  trace.put(b, {1.0001, 2});
  trace.put(c, {2, 1});
  const auto whole = [&](const trace::TensorEntry& entry, DType precision) {
    return slice_hashes({&trace, &entry}, precision).whole;
  };
  CHECK(whole(a, DType::kBFloat16) == whole(b, DType::kBFloat16));
  CHECK(whole(a, DType::kFloat32) != whole(b, DType::kFloat32));
  CHECK(whole(a, DType::kFloat32) != whole(c, DType::kFloat32));
}

TEST_CASE("a single number and no number have hashes too") {
  MemoryTrace trace;
  const trace::TensorEntry scalar = make_entry("scalar", {});
  const trace::TensorEntry nothing = make_entry("nothing", {0, 4});
  trace.put(scalar, {3});
  trace.put(nothing, {});
  CHECK(slice_hashes({&trace, &scalar}, DType::kFloat32).by_dim.empty());
  CHECK(slice_hashes({&trace, &nothing}, DType::kFloat32).by_dim[0].empty());
}

TEST_CASE("sketches estimate how far two tensors are apart") {
  MemoryTrace trace;
  const trace::TensorEntry a = make_entry("a", {1000});
  const trace::TensorEntry b = make_entry("b", {1000});
  std::vector<double> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i));
  trace.put(a, values);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= 1 + 1e-3 * (i % 2 == 0 ? 1 : -1);
  trace.put(b, values);
  const Sketch of_a = sketch_of({&trace, &a});
  const Sketch of_b = sketch_of({&trace, &b});
  CHECK(sketch_distance(of_a, of_a) == 0);
  CHECK(sketch_distance(of_a, of_b) == Approx(1e-3).epsilon(0.5));
  CHECK(sketch_distance(Sketch{}, Sketch{}) == 0);
  CHECK(sketch_distance(of_a, Sketch{}) == 1);
}

}  // namespace
}  // namespace ttrace::measure::fingerprints_test
