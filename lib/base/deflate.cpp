#include "base/deflate.h"

#ifdef TTRACE_HAS_LIBDEFLATE
#include <libdeflate.h>

#include <memory>
#else
#include <zlib.h>

#include <limits>
#endif
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <new>

#include "base/error.h"
#include "base/files.h"
#include "base/parallel.h"
#include "base/strict_json.h"
#include "base/text.h"

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

// A report is a text, the text of one of its strings twice while it is parsed, its values, and what
// readers make of them: a tensor of ten values becomes 600 bytes of a page, an id in a list 50.
// Measured over hostile reports of every shape by tests/cli/test_hostile_reports.py.
constexpr std::uint64_t kPerByte = 8;
constexpr std::uint64_t kPerValue = 96;
constexpr std::string_view kGzipBegin = "\x1f\x8b";
constexpr std::size_t kSmallestGzip = 18;  // header and trailer
// What --memory does not count: the program itself, and its stacks.
constexpr std::uint64_t kProgram = std::uint64_t{32} << 20;

InputError too_large(const std::string& file) {
  return input_error(file, ": would take more memory than --memory allows (",
                     human_bytes(json_memory()),
                     "); if it is what it should be, give more, or write the report with "
                     "--json-detail findings, which is smaller");
}

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

std::string gunzipped(std::string bytes, const std::string& file, std::uint64_t most) {
  constexpr std::uint64_t kMostPerByte = 1032;  // deflate reaches no higher ratio
  if (!bytes.starts_with(kGzipBegin)) return bytes;
  const std::uint64_t size = bytes.size() < kSmallestGzip ? 0 : promised_size(bytes);
  // A truncated file ends in other bytes, which mostly read as a size beyond this ratio.
  if (bytes.size() >= kSmallestGzip && size / kMostPerByte <= bytes.size()) {
    if (size > most) throw too_large(file);
    std::string text(size, '\0');
    if (inflate_gzip(bytes, text)) return text;
  }
  throw input_error(file, ": is a damaged gzip file, or one of several members; write it again");
}

std::string read_report(const std::string& path) {
  const std::uint64_t most = json_memory() + kProgram;
  std::error_code missing;  // read_text() tells it
  const std::uint64_t bytes = std::filesystem::file_size(path, missing);
  if (!missing && bytes > most / kPerByte) throw too_large(path);
  std::string text = gunzipped(read_text(path), path, most / kPerByte);
  if (kPerByte * text.size() + kPerValue * most_json_values(text) > most) throw too_large(path);
  return text;
}

unsigned reports_at_once(const std::vector<std::string>& paths) {
  // As many bytes as all values of a report have at least.
  constexpr std::uint64_t kBytesOfValue = 2;
  std::uint64_t largest = 1;
  for (const std::string& path : paths) {
    std::error_code missing;
    const std::uint64_t bytes = std::filesystem::file_size(path, missing);
    if (missing) continue;
    std::ifstream file(path, std::ios::binary);
    std::string ends(2, '\0');
    file.read(ends.data(), 2);
    const bool is_gzip = ends == kGzipBegin;
    if (is_gzip && bytes >= kSmallestGzip) {
      ends.resize(4);
      file.seekg(-4, std::ios::end).read(ends.data(), 4);
    }
    largest = std::max(largest, is_gzip ? promised_size(ends) : bytes);
  }
  const std::uint64_t most = json_memory() / (largest * (kPerByte + kPerValue / kBytesOfValue));
  return static_cast<unsigned>(std::clamp<std::uint64_t>(most, 1, resolve_threads(0)));
}

}  // namespace ttrace::base
