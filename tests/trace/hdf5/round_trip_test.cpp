// What the writer puts into a file, the reader gives back bit by bit.
#include <numeric>

#include "property/random.h"
#include "support/temp_dir.h"
#include "trace/hdf5/trace_files.h"
#include "trace/hdf5/writer.h"
#include "trace/open/open_trace.h"

namespace ttrace::trace::hdf5::round_trip_test {
namespace {

using tensor::Box;
using tensor::DType;
using tensor::Shape;
using test::Random;
using Bytes = std::vector<std::byte>;

Manifest bare_manifest() {
  Manifest manifest;
  manifest.meshes.emplace("", Mesh{});
  return manifest;
}

Bytes random_bytes(Random& random, std::size_t count) {
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.bits());
  return bytes;
}

Bytes read_box(const Dataset& dataset, const Box& box) {
  Bytes bytes(tensor::volume(box) * tensor::element_bytes(dataset.facts().dtype));
  dataset.read(box, bytes);
  return bytes;
}

// One file with one dataset "/d/x" of `bits`.
std::unique_ptr<Source> written(const test::TempDir& dir, DType dtype, const Shape& shape,
                                const Bytes& bits) {
  const std::string path = dir.file("t.h5");
  const auto sink = create_file(path, base::Existing::kReplaced);
  sink->create("/d/x", dtype, shape);
  sink->write("/d/x", tensor::whole(shape), bits);
  sink->finish(bare_manifest());
  return open_trace(path);
}

TEST_CASE("all dtypes come back with their type and every bit") {
  Random random(1);
  for (const DType dtype : tensor::kAllDTypes) {
    CAPTURE(tensor::dtype_name(dtype));
    const test::TempDir dir;
    const Shape shape{7, 40};
    // Random bits have NaNs with payloads, subnormals and booleans that are neither 0 nor 1.
    const Bytes bits = random_bytes(random, 280 * tensor::element_bytes(dtype));
    const auto source = written(dir, dtype, shape, bits);
    const auto dataset = source->open(0, "/d/x");
    CHECK(dataset->facts().dtype == dtype);
    CHECK(dataset->facts().shape == shape);
    CHECK((read_box(*dataset, tensor::whole(shape)) == bits));
  }
}

TEST_CASE("scalars and empty tensors are written and read") {
  Random random(2);
  for (const DType dtype : tensor::kAllDTypes) {
    CAPTURE(tensor::dtype_name(dtype));
    const test::TempDir dir;
    const Bytes bits = random_bytes(random, tensor::element_bytes(dtype));
    const auto scalar = written(dir, dtype, {}, bits)->open(0, "/d/x");
    CHECK(scalar->facts().shape.empty());
    CHECK((read_box(*scalar, tensor::whole({})) == bits));
    const test::TempDir other;
    const auto nothing = written(other, dtype, {0, 4}, {})->open(0, "/d/x");
    CHECK(nothing->facts().shape == Shape{0, 4});
    CHECK(read_box(*nothing, tensor::whole({0, 4})).empty());
  }
}

TEST_CASE("random boxes of a dataset are read and written") {
  test::for_seeds(60, [](Random& random) {
    const test::TempDir dir;
    Shape shape = random.shape(4, 1, 6);
    shape.push_back(random.between(1, 9));
    const Box all = tensor::whole(shape);
    CAPTURE(tensor::to_string(shape));
    const Bytes bits = random_bytes(random, tensor::volume(all) * 2);
    const std::string path = dir.file("t.h5");
    const auto sink = create_file(path, base::Existing::kReplaced);
    sink->create("/x", DType::kBFloat16, shape);
    tensor::for_each_sub_box(all, random.between(1, 50), [&](const Box& slab) {
      Bytes part(tensor::volume(slab) * 2);
      tensor::copy_common(all, bits, slab, part, 2);
      sink->write("/x", slab, part);
    });
    sink->finish(bare_manifest());
    const auto dataset = open_trace(path)->open(0, "/x");
    for (int i = 0; i < 20; ++i) {
      const Box box = random.box_in(all);
      CAPTURE(tensor::to_string(box));
      Bytes expected(tensor::volume(box) * 2);
      tensor::copy_common(all, bits, box, expected, 2);
      CHECK((read_box(*dataset, box) == expected));
    }
  });
}

TEST_CASE("32 dimensions are written and read") {
  const test::TempDir dir;
  Shape shape(32, 1);
  shape[5] = 3;
  const Bytes bits{std::byte{1}, std::byte{2}, std::byte{3}};
  const auto dataset = written(dir, DType::kInt8, shape, bits)->open(0, "/d/x");
  CHECK(dataset->facts().shape == shape);
  CHECK((read_box(*dataset, tensor::whole(shape)) == bits));
}

TEST_CASE("a manifest in a file survives with every character") {
  const test::TempDir dir;
  Manifest manifest = bare_manifest();
  manifest.run.model = "größe · 😀";
  manifest.run.command = std::string(200000, 'x');  // more than an object header holds
  TensorEntry entry;
  entry.key.name = "layers.0.größe[1]";
  manifest.tensors.push_back(entry);
  const std::string path = dir.file("t.h5");
  const auto sink = create_file(path, base::Existing::kReplaced);
  sink->create(dataset_path(entry.key), DType::kFloat32, {});
  sink->write(dataset_path(entry.key), tensor::whole({}), Bytes(4));
  sink->finish(manifest);
  const auto source = open_trace(path);
  CHECK(manifest_text(source->manifest()) == manifest_text(manifest));
  CHECK(source->path() == path);
  CHECK(source->rank_file(0) == path);
  CHECK_FALSE(source->rank_problem(0).has_value());
  CHECK(source->open(0, dataset_path(entry.key))->facts().shape.empty());
}

TEST_CASE("the same contents make the same file") {
  const auto bytes_of = [](const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const test::TempDir first;
  const test::TempDir second;
  const Bytes bits(64, std::byte{7});
  written(first, DType::kFloat32, {16}, bits);
  written(second, DType::kFloat32, {16}, bits);
  CHECK(bytes_of(first.file("t.h5")) == bytes_of(second.file("t.h5")));
}

}  // namespace
}  // namespace ttrace::trace::hdf5::round_trip_test
