#include "base/deflate.h"

#ifdef TTRACE_HAS_LIBDEFLATE
#include <libdeflate.h>

#include <memory>
#else
#include <zlib.h>

#include <limits>
#endif
#include <cstddef>
#include <cstdint>
#include <new>

#include "base/error.h"
#include "base/files.h"

namespace ttrace::base {
namespace {

constexpr int kLevel = 6;

#ifdef TTRACE_HAS_LIBDEFLATE

template <typename Bound, typename Compress>
std::string compressed(std::string_view text, Bound bound, Compress compress) {
  const std::unique_ptr<libdeflate_compressor, decltype([](libdeflate_compressor* one) {
                          libdeflate_free_compressor(one);
                        })>
      compressor(libdeflate_alloc_compressor(kLevel));
  if (!compressor) throw std::bad_alloc();
  std::string out(bound(compressor.get(), text.size()), '\0');
  out.resize(compress(compressor.get(), text.data(), text.size(), out.data(), out.size()));
  return out;
}

// Whether `bytes` are exactly one gzip member of as many bytes as `out` has room for.
bool inflate_gzip(std::string_view bytes, std::string& out) {
  const std::unique_ptr<libdeflate_decompressor, decltype([](libdeflate_decompressor* one) {
                          libdeflate_free_decompressor(one);
                        })>
      decompressor(libdeflate_alloc_decompressor());
  if (!decompressor) throw std::bad_alloc();
  std::size_t read = 0;
  return libdeflate_gzip_decompress_ex(decompressor.get(), bytes.data(), bytes.size(), out.data(),
                                       out.size(), &read, nullptr) == LIBDEFLATE_SUCCESS &&
         read == bytes.size();
}

#else

constexpr int kWindow = 15;
constexpr int kGzip = 16;  // added to the window: gzip's header and trailer

Bytef* bytes_of(const char* text) {
  // zlib's interface is older than const.
  return reinterpret_cast<Bytef*>(const_cast<char*>(text));
}

std::string compressed(std::string_view text, int window) {
  constexpr int kMemory = 8;
  z_stream stream{};
  if (text.size() > std::numeric_limits<uInt>::max() / 2) throw std::bad_alloc();
  if (deflateInit2(&stream, kLevel, Z_DEFLATED, window, kMemory, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = bytes_of(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = bytes_of(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

bool inflate_gzip(std::string_view bytes, std::string& out) {
  z_stream stream{};
  if (bytes.size() > std::numeric_limits<uInt>::max()) return false;
  if (inflateInit2(&stream, kWindow + kGzip) != Z_OK) throw std::bad_alloc();
  stream.next_in = bytes_of(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = bytes_of(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = inflate(&stream, Z_FINISH);
  const bool exact = status == Z_STREAM_END && stream.avail_out == 0 && stream.avail_in == 0;
  inflateEnd(&stream);
  return exact;
}

#endif

// Returns the size of the text, modulo 2^32, as the last bytes of a gzip file state it.
std::uint64_t promised_size(std::string_view bytes) {
  std::uint64_t size = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    size |= std::uint64_t{static_cast<unsigned char>(bytes[bytes.size() - 4 + i])} << (8 * i);
  }
  return size;
}

}  // namespace

#ifdef TTRACE_HAS_LIBDEFLATE
std::string zlib_compressed(std::string_view text) {
  return compressed(text, libdeflate_zlib_compress_bound, libdeflate_zlib_compress);
}

std::string gzip_compressed(std::string_view text) {
  return compressed(text, libdeflate_gzip_compress_bound, libdeflate_gzip_compress);
}
#else
std::string zlib_compressed(std::string_view text) { return compressed(text, kWindow); }

std::string gzip_compressed(std::string_view text) { return compressed(text, kWindow + kGzip); }
#endif

std::string gunzipped(std::string bytes, const std::string& file) {
  constexpr std::size_t kSmallest = 18;         // header and trailer
  constexpr std::uint64_t kMostPerByte = 1032;  // deflate reaches no higher ratio
  if (!bytes.starts_with("\x1f\x8b")) return bytes;
  const std::uint64_t size = bytes.size() < kSmallest ? 0 : promised_size(bytes);
  // A truncated file ends in other bytes, which mostly read as a size beyond this ratio.
  if (bytes.size() >= kSmallest && size / kMostPerByte <= bytes.size()) {
    if (size > kLargestText) {
      throw input_error(file, ": its text is larger than ", human_bytes(kLargestText),
                        "; a report that is written with --json-detail findings is smaller");
    }
    std::string text(size, '\0');
    if (inflate_gzip(bytes, text)) return text;
  }
  throw input_error(file, ": is a damaged gzip file, or one of several members; write it again");
}

}  // namespace ttrace::base
