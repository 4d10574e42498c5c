#include "trace/hdf5/inflate.h"

#ifdef TTRACE_HAS_LIBDEFLATE
#include <libdeflate.h>

#include <memory>
#include <new>
#else
#include <zlib.h>

#include <limits>
#endif

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

}  // namespace ttrace::trace::hdf5
