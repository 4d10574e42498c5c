#include "trace/hdf5/trace_files.h"

#include <array>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "trace/hdf5/library/file.h"
#include "trace/hdf5/sealed_ranges.h"

namespace ttrace::trace::hdf5 {
namespace {

constexpr const char* kSuffix = ".h5";

RangeCheck check_table(const File& file) {
  const std::string& path = file.path();
  RangeCheck check;
  const auto find = [&](const auto&... parts) {
    check.findings.push_back(base::concat(path, ": ", base::printable(base::concat(parts...))));
  };
  std::optional<PlacedTable> table;
  try {
    table = file.ranges_table();
    if (!table) return check;
    require_sealed(table->text, table->at, *file.opened());
  } catch (const base::InputError& error) {
    check.warning = base::concat(path, ": ", base::printable(error.what()),
                                 ", so HDF5 opens its tensors, which takes longer");
    return check;
  }
  range::for_each_range(table->text, [&](std::string_view name, const range::StoredRange& range) {
    try {
      const auto stored = file.open_by_library(std::string(name));
      const DatasetFacts& facts = stored->facts();
      if (facts.dtype == range.facts.dtype && facts.shape == range.facts.shape &&
          stored->offset() == range.offset) {
        return;
      }
      const auto describe = [](const DatasetFacts& of, std::optional<std::uint64_t> at) {
        return base::concat(tensor::dtype_name(of.dtype), " ", tensor::to_string(of.shape),
                            at ? base::concat(" at byte ", *at) : " in pieces");
      };
      find(name, ": the table of ranges has it as ", describe(range.facts, range.offset),
           ", HDF5 as ", describe(facts, stored->offset()));
    } catch (const base::InputError& error) {
      find("its table of ranges has ", name, ", which HDF5 cannot open: ", error.what());
    }
  });
  return check;
}

class LibraryFile : public RankFile {
 public:
  explicit LibraryFile(std::shared_ptr<const File> file) : file_(std::move(file)) {}

  std::unique_ptr<Dataset> open_dataset(const std::string& dataset) const override {
    return file_->open_dataset(dataset);
  }
  std::shared_ptr<const range::RangeFile> ranges() const override { return file_->ranges(); }
  std::optional<std::uint64_t> written_by() const override {
    return file_->root_number("ttrace_rank");
  }
  std::optional<std::string> stamped_run() const override { return file_->root_text("ttrace_run"); }
  EmbeddedManifest manifest() const override {
    constexpr const char* kPlace = "/manifest";
    if (!file_->has(kPlace)) return {kPlace, std::nullopt};
    return {kPlace, file_->read_string(kPlace)};
  }
  RangeCheck check_ranges() const override { return check_table(*file_); }

 private:
  std::shared_ptr<const File> file_;
};

}  // namespace

StorageKind storage() {
  return {.suffix = kSuffix,
          .recognises = [](std::string_view head,
                           std::uint64_t) { return head.starts_with("\x89HDF\r\n\x1a\n"); },
          .open = [](const std::string& path, bool grows) -> std::shared_ptr<const RankFile> {
            return std::make_shared<LibraryFile>(File::open(path, grows));
          }};
}

std::string library_version() {
  const LibraryLock lock;
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  H5get_libversion(&major, &minor, &release);
  const std::string running = base::concat(major, ".", minor, ".", release);
  const std::string built = base::concat(H5_VERS_MAJOR, ".", H5_VERS_MINOR, ".", H5_VERS_RELEASE);
  return running == built ? running : base::concat(running, " (built with ", built, ")");
}

ChunkMemory& chunk_memory() {
  static ChunkMemory memory;
  return memory;
}

std::string rank_file_name(std::uint64_t rank) {
  std::array<char, 40> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "rank_%05llu%s",
                static_cast<unsigned long long>(rank), kSuffix);
  return buffer.data();
}

}  // namespace ttrace::trace::hdf5
