#include "trace/safetensors/tensor_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "trace/foreign_file.h"
#include "trace/range/raw_range.h"
#include "trace/safetensors/header.h"

namespace ttrace::trace::safetensors {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::size_t kReadAtOnce = std::size_t{1} << 20;

// A regular file, open for reading while this lives.
class Descriptor {
 public:
  explicit Descriptor(const std::string& path) {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (!std::filesystem::exists(status)) {
      throw base::input_error(path, ": ", base::reading_problem(error ? error.value() : ENOENT));
    }
    // Opening a device can do things.
    if (!std::filesystem::is_regular_file(status)) refuse_kind(path);
    opened_.descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat facts {};
    if (opened_.descriptor < 0 || ::fstat(opened_.descriptor, &facts) != 0) {
      const int failed = errno;
      close();
      throw base::input_error(path, ": cannot be opened: ", base::reading_problem(failed));
    }
    if (!S_ISREG(facts.st_mode)) {
      close();
      refuse_kind(path);
    }
    opened_.end = static_cast<std::uint64_t>(facts.st_size);
    opened_.changed = facts.st_mtim;
  }
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  const range::OpenFile& opened() const { return opened_; }

 private:
  [[noreturn]] static void refuse_kind(const std::string& path) {
    throw base::input_error(path, ": not a regular file");
  }
  void close() {
    if (opened_.descriptor >= 0) ::close(std::exchange(opened_.descriptor, -1));
  }

  range::OpenFile opened_;
};

// The length of the header, which the file begins with.
std::uint64_t header_bytes(const range::OpenFile& file, const std::string& path) {
  std::array<std::byte, kLengthBytes> bytes{};
  if (file.end < bytes.size()) {
    throw base::input_error(path, ": has ", file.end,
                            " bytes, too few for a safetensors file; was the job killed while it "
                            "wrote?");
  }
  range::RawRange{file.descriptor, 0, bytes.size()}.read_all(bytes, path);
  if (bytes[0] == std::byte{0x89} && bytes[1] == std::byte{'H'}) {
    throw base::input_error(path, ": is an HDF5 file; give it a name that ends in .h5");
  }
  std::uint64_t length = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    length = length << 8U | std::to_integer<std::uint64_t>(bytes[i]);
  }
  if (length > kLargestHeader) {
    throw base::input_error(
        path, ": its header would have ", length,
        " bytes, and at most 100 MB are read, as by safetensors itself; is it a "
        "safetensors file?");
  }
  if (length > file.end - kLengthBytes) {
    throw base::input_error(
        path, ": its header has ", length, " bytes, and the file ends after ",
        file.end - kLengthBytes,
        " of them; was the job killed while it wrote, or the file not copied to "
        "its end?");
  }
  return length;
}

class TensorFile : public RankFile {
 public:
  explicit TensorFile(const std::string& path) : path_(path) {
    const Descriptor file(path);
    const range::OpenFile& opened = file.opened();
    const std::uint64_t data_begin = kLengthBytes + header_bytes(opened, path);
    std::string piece(kReadAtOnce, '\0');
    std::uint64_t at = kLengthBytes;
    const auto next_piece = [&] {
      const std::uint64_t bytes = std::min<std::uint64_t>(piece.size(), data_begin - at);
      range::RawRange{opened.descriptor, at, bytes}.read_all(
          std::as_writable_bytes(std::span(piece).first(bytes)), path);
      at += bytes;
      return std::string_view(piece).substr(0, bytes);
    };
    header_ = parse_header(next_piece, data_begin, opened.end, path);
    opened.require_unchanged(path);
    metadata_ = header_.take_metadata();
    tensors_ = range::RangeFile::of(path, opened, header_.take_tensors());
    if (!tensors_) {
      throw base::input_error(path, ": cannot be opened: ", base::reading_problem(EMFILE));
    }
  }

  std::unique_ptr<Dataset> open_dataset(const std::string& dataset) const override {
    if (auto opened = tensors_->open(dataset)) return opened;
    const std::string what = path_ + ": " + dataset;
    const std::string_view other = header_.other_type(dataset);
    if (other.empty()) {
      throw base::input_error(what,
                              ": there is no such tensor; the manifest says this rank holds it");
    }
    throw base::input_error(what, ": has the type ", base::printable(other),
                            ", which no trace has; write it as F64, F32, F16, BF16, F8_E4M3, "
                            "F8_E5M2, BOOL or an integer of 8 to 64 bits");
  }

  std::shared_ptr<const range::RangeFile> ranges() const override {
    return tensors_->has_room() ? tensors_ : nullptr;
  }

  std::optional<std::uint64_t> written_by() const override {
    const auto found = metadata_.find("ttrace_rank");
    if (found == metadata_.end()) return std::nullopt;
    const std::string& text = found->second;
    std::uint64_t rank = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
    if (error == std::errc() && stop == text.data() + text.size()) return rank;
    throw base::input_error(path_, ": __metadata__: ttrace_rank is not a whole number");
  }

  std::optional<std::string> stamped_run() const override { return metadata("ttrace_run"); }

  EmbeddedManifest manifest() const override {
    return {"__metadata__/ttrace_manifest", metadata("ttrace_manifest")};
  }

 private:
  std::optional<std::string> metadata(const std::string& key) const {
    const auto found = metadata_.find(key);
    if (found == metadata_.end()) return std::nullopt;
    return found->second;
  }

  std::string path_;
  std::map<std::string, std::string> metadata_;
  Header header_;
  std::shared_ptr<const range::RangeFile> tensors_;
};

}  // namespace

StorageKind storage() {
  return {.suffix = ".safetensors",
          .recognises = begins_as_safetensors,
          .open = [](const std::string& path, bool) -> std::shared_ptr<const RankFile> {
            return std::make_shared<TensorFile>(path);
          }};
}

}  // namespace ttrace::trace::safetensors
