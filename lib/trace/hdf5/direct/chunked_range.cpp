#include "trace/hdf5/direct/chunked_range.h"

#ifdef TTRACE_HAS_LIBDEFLATE
#include <libdeflate.h>

#include <memory>
#include <new>
#else
#include <zlib.h>

#include <limits>
#endif
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "trace/hdf5/library/checked_driver.h"
#include "trace/hdf5/library/library.h"
#include "trace/hdf5/trace_files.h"
#include "trace/range/raw_range.h"

namespace ttrace::trace::hdf5 {

#ifdef TTRACE_HAS_LIBDEFLATE

const char* inflate_library() { return "libdeflate"; }

bool inflate_exactly(std::span<const std::byte> stored, std::span<std::byte> out) {
  using Decompressor = std::unique_ptr<libdeflate_decompressor, decltype([](auto* decompressor) {
                                         libdeflate_free_decompressor(decompressor);
                                       })>;
  thread_local const Decompressor decompressor(libdeflate_alloc_decompressor());
  if (!decompressor) throw std::bad_alloc();
  std::size_t consumed = 0;
  // Without a place for the number of bytes written, fewer than asked for are an error too.
  return libdeflate_zlib_decompress_ex(decompressor.get(), stored.data(), stored.size(), out.data(),
                                       out.size(), &consumed, nullptr) == LIBDEFLATE_SUCCESS;
}

#else

const char* inflate_library() { return "zlib"; }

bool inflate_exactly(std::span<const std::byte> stored, std::span<std::byte> out) {
  constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
  if (stored.size() > kMost || out.size() > kMost) return false;  // no chunk of HDF5 is as large
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return false;
  // zlib's interface is older than const.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(stored.data()));
  stream.avail_in = static_cast<uInt>(stored.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = inflate(&stream, Z_FINISH);
  const bool exact = status == Z_STREAM_END && stream.avail_out == 0;
  inflateEnd(&stream);
  return exact;
}

#endif

namespace {

// The compiler interleaves whole vectors if it knows the width.
template <std::size_t kBytes>
void interleave(const std::byte* from, std::size_t count, std::byte* to) {
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t b = 0; b < kBytes; ++b) to[i * kBytes + b] = from[b * count + i];
  }
}

}  // namespace

void unshuffle(std::span<const std::byte> shuffled, std::size_t element_bytes,
               std::span<std::byte> out) {
  const std::size_t count = shuffled.size() / element_bytes;
  const std::byte* from = shuffled.data();
  std::byte* to = out.data();
  switch (element_bytes) {
    case 2:
      interleave<2>(from, count, to);
      break;
    case 4:
      interleave<4>(from, count, to);
      break;
    case 8:
      interleave<8>(from, count, to);
      break;
    default:
      for (std::size_t b = 0; b < element_bytes; ++b) {
        for (std::size_t i = 0; i < count; ++i) to[i * element_bytes + b] = from[b * count + i];
      }
  }
  const std::size_t whole = count * element_bytes;
  std::copy(shuffled.begin() + static_cast<std::ptrdiff_t>(whole), shuffled.end(),
            out.begin() + static_cast<std::ptrdiff_t>(whole));
}

namespace {

bool has_user_block(hid_t object) {
  const Handle file(H5Iget_file_id(object), H5Fclose);
  const Handle creation(H5Fget_create_plist(file.get()), H5Pclose);
  hsize_t bytes = 0;
  return H5Pget_userblock(creation.get(), &bytes) < 0 || bytes != 0;
}

H5Z_filter_t filter_at(hid_t creation, int i) {
  unsigned flags = 0;
  std::size_t values = 0;
  return H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr,
                        nullptr);
}

}  // namespace

ChunkedRange::~ChunkedRange() { chunk_memory().kept -= kept_.size() * chunk_bytes_; }

std::unique_ptr<ChunkedRange> ChunkedRange::of(hid_t object, hid_t creation,
                                               const DatasetFacts& facts, std::string file_name,
                                               const OpenFile& opened) {
  if (H5Pget_layout(creation) != H5D_CHUNKED || facts.shape.empty()) return nullptr;
  const auto bytes = tensor::byte_count(facts.shape, facts.dtype);
  if (!bytes || *bytes == 0 || has_user_block(object)) return nullptr;

  std::unique_ptr<ChunkedRange> range(new ChunkedRange);
  for (int i = 0; i < H5Pget_nfilters(creation); ++i) {
    const H5Z_filter_t filter = filter_at(creation, i);
    if (filter == H5Z_FILTER_SHUFFLE && range->shuffle_ < 0 && range->deflate_ < 0) {
      range->shuffle_ = i;
    } else if (filter == H5Z_FILTER_DEFLATE && range->deflate_ < 0) {
      range->deflate_ = i;
    } else {
      return nullptr;
    }
  }
  std::vector<hsize_t> extent(facts.shape.size());
  H5Pget_chunk(creation, static_cast<int>(extent.size()), extent.data());
  range->extent_.assign(extent.begin(), extent.end());
  const auto chunk_bytes = tensor::byte_count(range->extent_, facts.dtype);
  if (!chunk_bytes || *chunk_bytes > kLargestChunk) return nullptr;
  range->object_ = object;
  range->file_ = std::move(file_name);
  range->descriptor_ = opened.descriptor;
  range->file_end_ = opened.end;
  range->shape_ = facts.shape;
  range->element_bytes_ = tensor::element_bytes(facts.dtype);
  range->chunk_bytes_ = *chunk_bytes;
  return range;
}

ChunkedRange::Stored ChunkedRange::locate(const tensor::Shape& origin,
                                          const std::string& what) const {
  const std::vector<hsize_t> offset(origin.begin(), origin.end());
  haddr_t address = HADDR_UNDEF;
  hsize_t bytes = 0;
  unsigned skipped = 0;
  const LibraryLock lock;
  const ReadingNote note(file_);
  if (H5Dget_chunk_info_by_coord(object_, offset.data(), &skipped, &address, &bytes) < 0) {
    throw base::input_error(what, ": its chunk at ", tensor::to_string(origin),
                            " cannot be found (", base::printable(last_error()),
                            "); the file may be damaged");
  }
  if (address == HADDR_UNDEF) {
    throw base::input_error(what, ": its chunk at ", tensor::to_string(origin),
                            " was never written; was the job killed while it wrote?");
  }
  if (address > file_end_ || bytes > file_end_ - address) {
    throw base::input_error(what, ": its chunk at ", tensor::to_string(origin), " would lie at ",
                            address, ", beyond the end of the file; the file may be damaged");
  }
  return {address, bytes, skipped};
}

void ChunkedRange::load(const tensor::Shape& origin, std::vector<std::byte>& values,
                        const std::string& what) {
  const auto applied = [](int filter, unsigned skipped) {
    return filter >= 0 && (skipped >> static_cast<unsigned>(filter) & 1U) == 0;
  };
  const auto refuse = [&](auto... why) {
    throw base::input_error(what, ": its chunk at ", tensor::to_string(origin), why...,
                            "; the file may be damaged");
  };
  const Stored stored = locate(origin, what);
  const bool deflated = applied(deflate_, stored.skipped_filters);
  const bool shuffled = applied(shuffle_, stored.skipped_filters);
  if (!deflated && stored.bytes != chunk_bytes_) {
    refuse(" has ", stored.bytes, " bytes in the file instead of ", chunk_bytes_);
  }
  // Deflate grows what it cannot compress by a little, never to twice its size.
  if (stored.bytes > 2 * chunk_bytes_ + 1024) {
    refuse(" has ", stored.bytes, " bytes in the file for ", chunk_bytes_, " of values");
  }
  values.resize(chunk_bytes_);
  std::vector<std::byte>& raw = deflated ? stored_ : (shuffled ? inflated_ : values);
  raw.resize(stored.bytes);
  range::RawRange{descriptor_, stored.offset, stored.bytes}.read_all(raw, what);
  if (deflated) {
    std::vector<std::byte>& target = shuffled ? inflated_ : values;
    target.resize(chunk_bytes_);
    if (!inflate_exactly(stored_, target)) {
      refuse(" does not inflate to its ", chunk_bytes_, " bytes");
    }
  }
  if (shuffled) unshuffle(inflated_, element_bytes_, values);
}

const std::vector<std::byte>& ChunkedRange::chunk(std::uint64_t number, const tensor::Shape& origin,
                                                  const std::string& what) {
  if (const auto known = found_.find(number); known != found_.end()) {
    kept_.splice(kept_.begin(), kept_, known->second);
    return kept_.front().values;
  }
  const std::uint64_t most = std::max<std::uint64_t>(1, kKeptBytes / chunk_bytes_);
  std::list<Kept> one;
  if (kept_.empty() ||
      (kept_.size() < most && chunk_memory().kept + chunk_bytes_ <= chunk_memory().most)) {
    one.emplace_back();
    chunk_memory().kept += chunk_bytes_;
  } else {
    found_.erase(kept_.back().number);
    one.splice(one.begin(), kept_, std::prev(kept_.end()));  // reuses its memory
  }
  one.front().number = number;
  load(origin, one.front().values, what);
  kept_.splice(kept_.begin(), one);
  found_.emplace(number, kept_.begin());
  return kept_.front().values;
}

void ChunkedRange::read_box(const tensor::Box& box, std::span<std::byte> out,
                            const std::string& what) {
  // The stored, the inflated and the unshuffled chunk are in memory at the same time.
  if (chunk_bytes_ > chunk_memory().most / 4) {
    throw base::input_error(what, ": its chunks of ", base::human_bytes(chunk_bytes_),
                            " need more memory than they may have; give more with --memory");
  }
  const std::lock_guard lock(mutex_);
  tensor::Box grid;  // of chunks that the box touches
  tensor::Shape chunks;
  for (std::size_t d = 0; d < shape_.size(); ++d) {
    const std::uint64_t first = box.origin[d] / extent_[d];
    const std::uint64_t last = (box.origin[d] + box.extent[d] - 1) / extent_[d];
    grid.origin.push_back(first);
    grid.extent.push_back(last - first + 1);
    chunks.push_back(shape_[d] / extent_[d] + (shape_[d] % extent_[d] != 0 ? 1 : 0));
  }
  tensor::for_each_sub_box(grid, 1, [&](const tensor::Box& one) {
    tensor::Box held{one.origin, extent_};
    for (std::size_t d = 0; d < shape_.size(); ++d) held.origin[d] *= extent_[d];
    const std::vector<std::byte>& values =
        chunk(tensor::position(chunks, one.origin), held.origin, what);
    tensor::copy_common(held, values, box, out, element_bytes_);
  });
}

}  // namespace ttrace::trace::hdf5
