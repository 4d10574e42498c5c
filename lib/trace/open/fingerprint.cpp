#include "trace/open/fingerprint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <span>

#include "base/checksum.h"

namespace ttrace::trace {
namespace {

constexpr std::uint64_t kSampled = std::uint64_t{8} << 20;  // bytes of all files
constexpr std::uint64_t kBlockBytes = 4096;

std::string hexadecimal(std::uint64_t value) {
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(value));
  return digits.data();
}

// A regular file, open while this lives.
class SampledFile {
 public:
  explicit SampledFile(const std::string& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    failed_ = descriptor_ < 0 && errno != ENOENT;
    struct stat facts {};
    if (descriptor_ >= 0 && ::fstat(descriptor_, &facts) == 0 && S_ISREG(facts.st_mode)) {
      bytes_ = static_cast<std::uint64_t>(facts.st_size);
      modified_ = facts.st_mtim.tv_sec;
    }
  }
  ~SampledFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  SampledFile(const SampledFile&) = delete;
  SampledFile& operator=(const SampledFile&) = delete;

  std::uint64_t bytes() const { return bytes_; }
  std::int64_t modified() const { return modified_; }
  bool failed() const { return failed_; }

  // Adds up to `most` blocks: the first, the last, and one from each of as many even sections.
  std::uint64_t checksum(std::uint64_t most, std::uint64_t sum) const {
    const std::uint64_t blocks = (bytes_ + kBlockBytes - 1) / kBlockBytes;
    const std::uint64_t sampled = std::min(blocks, most);
    for (std::uint64_t i = 0; i < sampled; ++i) {
      const bool fixed = sampled == blocks || i == 0 || i + 1 == sampled;
      const std::uint64_t from = sampled < 2 ? i : place_of(i, blocks, sampled);
      // Layers of one size repeat themselves, and blocks at even distances would meet the same
      // tensors of each.
      const std::uint64_t block = fixed ? from
                                        : from + base::xxh64(std::as_bytes(std::span(&i, 1))) %
                                                     (place_of(i + 1, blocks, sampled) - from);
      sum = base::xxh64(read(block * kBlockBytes), sum);
    }
    return sum;
  }

 private:
  // i · (blocks − 1) / (sampled − 1), without a product that wraps.
  static std::uint64_t place_of(std::uint64_t i, std::uint64_t blocks, std::uint64_t sampled) {
    const std::uint64_t whole = (blocks - 1) / (sampled - 1);
    const std::uint64_t rest = (blocks - 1) % (sampled - 1);
    return i * whole + i * rest / (sampled - 1);
  }

  std::span<const std::byte> read(std::uint64_t offset) const {
    std::size_t have = 0;
    while (have < buffer_.size()) {
      const ssize_t got = ::pread(descriptor_, buffer_.data() + have, buffer_.size() - have,
                                  static_cast<off_t>(offset + have));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) failed_ = true;
      if (got <= 0) break;
      have += static_cast<std::size_t>(got);
    }
    return std::span(buffer_).first(have);
  }

  int descriptor_;
  std::uint64_t bytes_ = 0;
  std::int64_t modified_ = 0;
  mutable bool failed_ = false;
  mutable std::array<std::byte, kBlockBytes> buffer_{};
};

}  // namespace

Fingerprint fingerprint_of(const std::vector<std::string>& files, std::uint64_t manifest) {
  Fingerprint found;
  found.manifest = hexadecimal(manifest);
  const std::uint64_t most =
      std::max<std::uint64_t>(1, kSampled / kBlockBytes / std::max<std::size_t>(1, files.size()));
  std::uint64_t sum = 0;
  bool failed = false;
  for (const std::string& path : files) {
    const SampledFile file(path);
    found.bytes += file.bytes();
    found.modified = std::max(found.modified, file.modified());
    // The size separates one file from the next.
    const std::uint64_t bytes = file.bytes();
    sum = base::xxh64(std::as_bytes(std::span(&bytes, 1)), file.checksum(most, sum));
    failed = failed || file.failed();
  }
  if (!failed) found.content = hexadecimal(sum);
  return found;
}

}  // namespace ttrace::trace
