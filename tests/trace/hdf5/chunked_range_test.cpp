#include "trace/hdf5/direct/chunked_range.h"

#include <zlib.h>

#include <cstring>
#include <numeric>

#include "base/refusal.h"
#include "property/random.h"
#include "support/temp_dir.h"
#include "trace/hdf5/library/file.h"
#include "trace/hdf5/odd_file.h"

namespace ttrace::trace::hdf5::chunked_range_test {
namespace {

using tensor::Box;
using test::check_refused;
using test::done;
using test::OddFile;
using test::TempDir;

std::vector<hsize_t> extents_of(const tensor::Shape& shape) { return {shape.begin(), shape.end()}; }

// 32-bit numbers that deflate well and repeat nowhere.
std::vector<std::uint32_t> numbers(std::uint64_t count) {
  std::vector<std::uint32_t> values(count);
  std::iota(values.begin(), values.end(), 1000U);
  return values;
}

template <typename T>
std::vector<T> read(const Dataset& dataset, const Box& box) {
  std::vector<T> out(tensor::volume(box));
  dataset.read(box, std::as_writable_bytes(std::span(out)));
  return out;
}

TEST_CASE("any box of any chunks and filters is read as it was written", "[hdf5]") {
  const TempDir dir;
  const std::uint64_t first = test::base_seed();
  for (std::uint64_t seed = first; seed < first + 150; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    tensor::Shape shape = random.shape(3, 1, 40);
    if (shape.empty()) shape = {random.between(1, 500)};
    std::vector<hsize_t> chunk;
    for (const std::uint64_t extent : shape) chunk.push_back(random.between(1, extent));
    const std::vector<std::uint32_t> values = numbers(tensor::volume(tensor::whole(shape)));
    {
      const OddFile odd(dir.file("t.h5"));
      const Handle list = test::chunked_list(chunk);
      if (random.chance(0.5)) done(H5Pset_shuffle(list.get()));
      if (random.chance(0.7)) {
        done(H5Pset_deflate(list.get(), static_cast<unsigned>(random.between(0, 9))));
      }
      odd.dataset("/x", H5T_STD_U32LE, test::simple_space(extents_of(shape)), list, values.data());
    }
    const auto dataset = File::open(dir.file("t.h5"))->open_dataset("/x");
    for (int i = 0; i < 20; ++i) {
      const Box box = random.box_in(tensor::whole(shape));
      std::vector<std::uint32_t> expected(tensor::volume(box));
      tensor::copy_common(tensor::whole(shape), std::as_bytes(std::span(values)), box,
                          std::as_writable_bytes(std::span(expected)), 4);
      CHECK(read<std::uint32_t>(*dataset, box) == expected);
    }
  }
}

TEST_CASE("shuffled elements of any width are put together again", "[hdf5]") {
  for (const std::size_t width : {1U, 2U, 3U, 4U, 8U}) {
    CAPTURE(width);
    const std::size_t count = 37;
    std::vector<std::byte> plain(width * count + 1);
    for (std::size_t i = 0; i < plain.size(); ++i) plain[i] = std::byte(i * 7 + 1);
    std::vector<std::byte> shuffled = plain;
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t b = 0; b < width; ++b) shuffled[b * count + i] = plain[i * width + b];
    }
    std::vector<std::byte> out(plain.size());
    unshuffle(shuffled, width, out);
    CHECK(out == plain);
  }
}

std::vector<std::byte> zlib_stream(const std::vector<std::uint32_t>& values) {
  uLongf bytes = compressBound(values.size() * 4);
  std::vector<std::byte> stream(bytes);
  REQUIRE(compress2(reinterpret_cast<Bytef*>(stream.data()), &bytes,
                    reinterpret_cast<const Bytef*>(values.data()), values.size() * 4, 9) == Z_OK);
  stream.resize(bytes);
  return stream;
}

TEST_CASE("a stream of another size than declared is not inflated", "[hdf5]") {
  const std::vector<std::byte> stream = zlib_stream(numbers(100));
  std::vector<std::byte> out(400);
  CHECK(inflate_exactly(stream, out));
  CHECK(std::memcmp(out.data(), numbers(100).data(), 400) == 0);
  std::vector<std::byte> less(399);
  std::vector<std::byte> more(401);
  CHECK_FALSE(inflate_exactly(stream, less));
  CHECK_FALSE(inflate_exactly(stream, more));
  for (std::size_t kept = 0; kept < stream.size(); ++kept) {
    CAPTURE(kept);
    CHECK_FALSE(inflate_exactly(std::span(stream).first(kept), out));
  }
}

// A dataset of [100] u32 in chunks of 50, whose chunks are stored as given.
std::string file_of_chunks(const TempDir& dir, const std::vector<std::vector<std::byte>>& chunks,
                           unsigned skipped_filters = 0) {
  const OddFile odd(dir.file("t.h5"));
  const Handle list = test::chunked_list({50});
  done(H5Pset_deflate(list.get(), 4));
  const Handle dataset = odd.dataset("/x", H5T_STD_U32LE, test::simple_space({100}), list);
  for (hsize_t i = 0; i < chunks.size(); ++i) {
    const hsize_t origin = i * 50;
    const LibraryLock lock;
    done(H5Dwrite_chunk(dataset.get(), H5P_DEFAULT, skipped_filters, &origin, chunks[i].size(),
                        chunks[i].data()));
  }
  return dir.file("t.h5");
}

std::vector<std::byte> bytes_of(const std::vector<std::uint32_t>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

TEST_CASE("a chunk that was stored without its filter is taken as it is", "[hdf5]") {
  const TempDir dir;
  const auto half = numbers(50);
  const auto file = File::open(file_of_chunks(dir, {bytes_of(half), bytes_of(half)}, 1));
  const auto all = read<std::uint32_t>(*file->open_dataset("/x"), tensor::whole({100}));
  CHECK(std::equal(half.begin(), half.end(), all.begin()));
  CHECK(std::equal(half.begin(), half.end(), all.begin() + 50));
}

TEST_CASE("chunks that lie about their size are refused, never overrun", "[hdf5]") {
  const TempDir dir;
  const std::vector<std::byte> good = zlib_stream(numbers(50));
  const auto refused = [&](const std::vector<std::byte>& second, unsigned skipped,
                           std::string_view why) {
    const std::vector<std::byte> first = skipped == 0 ? good : bytes_of(numbers(50));
    const auto file = File::open(file_of_chunks(dir, {first, second}, skipped));
    const auto dataset = file->open_dataset("/x");
    CHECK(read<std::uint32_t>(*dataset, {{0}, {50}}) == numbers(50));
    check_refused(
        [&] {
          read<std::uint32_t>(*dataset, {{49}, {2}});
        },
        {dir.file("t.h5"), "/x", "chunk at [50]", why});
  };
  refused(zlib_stream(numbers(51)), 0, "does not inflate to its 200 bytes");
  refused(zlib_stream(numbers(49)), 0, "does not inflate to its 200 bytes");
  refused(zlib_stream(std::vector<std::uint32_t>(1U << 20, 0)), 0, "bytes in the file for 200");
  refused(zlib_stream(std::vector<std::uint32_t>(1U << 16, 0)), 0, "does not inflate");
  refused(bytes_of(numbers(20)), 0, "does not inflate");
  refused(bytes_of(numbers(49)), 1, "has 196 bytes in the file instead of 200");
}

}  // namespace
}  // namespace ttrace::trace::hdf5::chunked_range_test
