#include "trace/hdf5/sealed_ranges.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef TTRACE_HAS_LIBDEFLATE
#include <libdeflate.h>
#else
#include <zlib.h>
#endif

#include <algorithm>
#include <cerrno>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "trace/range/raw_range.h"

namespace ttrace::trace::hdf5 {
namespace {

// Small tensors lie between small headers. A call of the kernel for each piece takes longer than
// reading this many bytes too many.
constexpr std::uint64_t kLargestGap = std::uint64_t{1} << 11;
constexpr std::uint64_t kReadAtOnce = std::uint64_t{1} << 16;

// An upper bound of the bytes that a dataset takes beside its elements; real ones take far less.
constexpr std::uint64_t kLargestHeader = std::uint64_t{1} << 12;

std::uint32_t add_to_crc32(std::uint32_t crc, std::span<const std::byte> bytes) {
#ifdef TTRACE_HAS_LIBDEFLATE
  return libdeflate_crc32(crc, bytes.data(), bytes.size());
#else
  return static_cast<std::uint32_t>(
      crc32_z(crc, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
#endif
}

// CRC-32, which the standard library of every language has.
std::uint64_t checksum_outside(int descriptor, std::span<const range::FileExtent> extents) {
  std::uint32_t crc = 0;
  std::vector<std::byte> buffer(kReadAtOnce);
  range::FileExtent held;
  const auto hold = [&](std::uint64_t begin, std::uint64_t end) {
    held = {begin, end};
    const range::RawRange range{descriptor, begin, end - begin};
    range.read_all(std::span(buffer).first(end - begin), "its headers");
  };
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const range::FileExtent& one = extents[i];
    if (one.end - one.begin > kReadAtOnce) {
      for (std::uint64_t at = one.begin; at < one.end; at = held.end) {
        hold(at, std::min(one.end, at + kReadAtOnce));
        crc = add_to_crc32(crc, std::span(buffer).first(held.end - held.begin));
      }
      continue;
    }
    if (one.end > held.end) {
      std::uint64_t end = one.end;
      for (std::size_t k = i + 1; k < extents.size() && extents[k].begin - end <= kLargestGap &&
                                  extents[k].end - one.begin <= kReadAtOnce;
           ++k) {
        end = extents[k].end;
      }
      hold(one.begin, end);
    }
    crc = add_to_crc32(crc, std::span(buffer).subspan(one.begin - held.begin, one.end - one.begin));
  }
  return crc;
}

class WritableFile {
 public:
  explicit WritableFile(const std::string& path)
      : descriptor_(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW)) {}
  ~WritableFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  WritableFile(const WritableFile&) = delete;
  WritableFile& operator=(const WritableFile&) = delete;

  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace

void seal_ranges(const std::string& path, const std::string& table, std::uint64_t at) {
  const WritableFile file(path);
  struct stat status {};
  bool is_sealed = file.get() >= 0 && ::fstat(file.get(), &status) == 0;
  if (is_sealed) {
    const auto bytes = static_cast<std::uint64_t>(status.st_size);
    range::RangeTable read(table, at, bytes);
    const std::string seal =
        range::Seal{bytes, checksum_outside(file.get(), read.take_outside())}.text();
    is_sealed = ::pwrite(file.get(), seal.data(), seal.size(),
                         static_cast<off_t>(at + range::Seal::kOffset)) ==
                static_cast<ssize_t>(seal.size());
  }
  if (!is_sealed) throw base::input_error(path, ": ", base::writing_problem(errno));
}

range::RangeTable require_sealed(const std::string& table, std::uint64_t at,
                                 const range::OpenFile& file) {
  range::RangeTable read(table, at, file.end);
  if (read.seal().file_bytes != file.end) {
    throw base::input_error("it has ", file.end, " bytes, and had ", read.seal().file_bytes,
                            " when it was finished");
  }
  const auto outside = read.take_outside();
  std::uint64_t bytes = 0;
  for (const range::FileExtent& one : outside) bytes += one.end - one.begin;
  // A sparse file may have terabytes between its ranges.
  if (bytes > base::kLargestText + kLargestHeader * read.size()) {
    throw base::input_error("it has ", bytes, " bytes beside its tensors");
  }
  if (checksum_outside(file.descriptor, outside) != read.seal().checksum) {
    throw base::input_error("its headers are not those that it was finished with");
  }
  return read;
}

}  // namespace ttrace::trace::hdf5
