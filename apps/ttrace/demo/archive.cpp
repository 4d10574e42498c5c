#include "demo/archive.h"

#include <charconv>
#include <cstdint>

#include "base/deflate.h"
#include "base/error.h"

namespace ttrace::app {
namespace {

// A tar archive is blocks of this many bytes: for each file a header, then its bytes.
constexpr std::size_t kBlock = 512;
constexpr std::size_t kNameLength = 100;
constexpr std::size_t kSizeAt = 124;
constexpr std::size_t kSizeLength = 12;
constexpr std::size_t kTypeAt = 156;
constexpr char kRegularFile = '0';

std::string_view until_nul(std::string_view field) { return field.substr(0, field.find('\0')); }

}  // namespace

void for_each_demo_file(const std::function<void(const std::string&, std::string_view)>& file) {
  const std::string archive = base::gunzipped(std::string(kDemoArchive), "the demo's archive");
  for (std::size_t at = 0; at + kBlock <= archive.size();) {
    const std::string_view header = std::string_view(archive).substr(at, kBlock);
    const std::string name(until_nul(header.substr(0, kNameLength)));
    if (name.empty()) return;  // blocks of zeros end the archive
    const std::string_view digits = until_nul(header.substr(kSizeAt, kSizeLength));
    std::uint64_t size = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), size, 8);
    at += kBlock;
    if (size > archive.size() - at) throw base::internal_error("the demo's archive is cut");
    if (header[kTypeAt] == kRegularFile) file(name, std::string_view(archive).substr(at, size));
    at += (size + kBlock - 1) / kBlock * kBlock;
  }
}

}  // namespace ttrace::app
