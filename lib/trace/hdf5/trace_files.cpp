#include "trace/hdf5/trace_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <list>
#include <map>
#include <mutex>
#include <unordered_map>

#include "base/checksum.h"
#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "trace/hdf5/fingerprint.h"
#include "trace/hdf5/foreign_file.h"
#include "trace/hdf5/library/file.h"
#include "trace/hdf5/sealed_ranges.h"

namespace ttrace::trace::hdf5 {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostOpenFiles = 128;

// Returns device and inode of the file behind all links; empty if there is no such file.
std::string file_identity(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return "";
  return base::concat(facts.st_dev, ":", facts.st_ino);
}

std::uint64_t checksum_of(const std::string& text) {
  return base::xxh64(std::as_bytes(std::span(text)));
}

// Throws as File::open, and if the file says that another rank wrote it.
std::shared_ptr<const File> open_rank_file(const std::string& path, std::uint64_t rank) {
  std::shared_ptr<const File> file = File::open(path);
  const auto written_by = file->root_attribute("ttrace_rank");
  if (written_by && *written_by != rank) {
    throw base::input_error(path, ": was written by rank ", *written_by,
                            " (attribute ttrace_rank), not by rank ", rank,
                            "; were files renamed or copied over each other?");
  }
  return file;
}

std::optional<std::uint64_t> rank_named(const std::string& file) {
  constexpr std::string_view kPrefix = "rank_";
  if (!file.starts_with(kPrefix)) return std::nullopt;
  std::uint64_t rank = 0;
  const auto digits =
      std::from_chars(file.data() + kPrefix.size(), file.data() + file.size(), rank);
  // rank_7.h5, rank_00007.h5.tmp: the name would be another one.
  if (digits.ec != std::errc() || rank_file_name(rank) != file) return std::nullopt;
  return rank;
}

class SingleFileTrace : public Source {
 public:
  SingleFileTrace(std::string path, std::shared_ptr<const File> file)
      : path_(std::move(path)), file_(std::move(file)) {
    if (!file_->has("/manifest")) {
      throw base::input_error(path_,
                              ": /manifest: there is no such dataset, so this is not a trace; it "
                              "was perhaps written by another program");
    }
    const std::string name = path_ + ": /manifest";
    const std::string text = file_->read_string("/manifest");
    manifest_ = parse_manifest(text, name);
    checksum_ = checksum_of(text);
    for (const auto& [mesh_name, mesh] : manifest_.meshes) {
      for (const MeshAxis& axis : mesh.axes) {
        if (axis.size != 1) {
          throw base::input_error(name, ": /meshes/", base::printable(mesh_name), ": axis \"",
                                  axis.name, "\" has size ", axis.size,
                                  ", but a single file holds one rank; give the directory with all "
                                  "rank files");
        }
      }
      if (!mesh.ranks.empty() && mesh.ranks[0] != 0) {
        throw base::input_error(name, ": /meshes/", base::printable(mesh_name), "/ranks: rank ",
                                mesh.ranks[0], ", but a single file holds rank 0");
      }
    }
  }

  SingleFileTrace(std::string path, std::shared_ptr<const File> file, Manifest manifest)
      : path_(std::move(path)),
        file_(std::move(file)),
        manifest_(std::move(manifest)),
        checksum_(checksum_of(manifest_text(manifest_))) {}

  const std::string& path() const override { return path_; }
  const Manifest& manifest() const override { return manifest_; }
  std::string identity() const override { return file_identity(path_); }
  Fingerprint fingerprint() const override { return fingerprint_of({path_}, checksum_); }
  std::string rank_file(std::uint64_t) const override { return path_; }
  std::optional<std::string> rank_problem(std::uint64_t) const override { return std::nullopt; }
  std::unique_ptr<Dataset> open(std::uint64_t, const std::string& dataset) const override {
    return file_->open_dataset(dataset);
  }

 private:
  std::string path_;
  std::shared_ptr<const File> file_;
  Manifest manifest_;
  std::uint64_t checksum_ = 0;  // of the manifest's text
};

class DirectoryTrace : public Source {
 public:
  explicit DirectoryTrace(std::string path) : path_(std::move(path)) {
    const fs::path manifest = fs::path(path_) / "manifest.json";
    std::error_code error;
    const bool exists = fs::exists(manifest, error);
    if (error && !exists) {
      throw base::input_error(manifest.string(),
                              ": cannot be read: ", base::reading_problem(error.value()));
    }
    if (!exists) {
      const std::string foreign = describe_foreign_folder(path_);
      if (!foreign.empty()) throw base::input_error(path_, ": ", foreign);
      throw base::input_error(manifest.string(),
                              ": there is no such file, so this directory is not a trace, or its "
                              "job died before the last rank had written; `ttrace lint --write ",
                              path_, "` rebuilds it from the rank files");
    }
    const std::string text = base::read_text(manifest.string());
    manifest_ = parse_manifest(text, manifest.string());
    checksum_ = checksum_of(text);
    list_ranks();
  }

  DirectoryTrace(std::string path, Manifest manifest)
      : path_(std::move(path)),
        manifest_(std::move(manifest)),
        checksum_(checksum_of(manifest_text(manifest_))) {
    list_ranks();
  }

  const std::string& path() const override { return path_; }
  const Manifest& manifest() const override { return manifest_; }

  // That of the first rank's file: a folder may hold links to another run's files.
  std::string identity() const override {
    for (const auto& [name, mesh] : manifest_.meshes) {
      const std::uint64_t first = mesh.ranks.empty() ? 0 : mesh.ranks.front();
      const std::string file = file_identity(rank_file(first));
      if (!file.empty()) return file;
    }
    return file_identity(path_);
  }

  Fingerprint fingerprint() const override {
    std::vector<std::string> files;
    for (const std::uint64_t rank : present_.value_or(std::vector<std::uint64_t>{})) {
      files.push_back(rank_file(rank));
    }
    return fingerprint_of(files, checksum_);
  }

  std::string rank_file(std::uint64_t rank) const override {
    return (fs::path(path_) / rank_file_name(rank)).string();
  }

  std::optional<std::string> rank_problem(std::uint64_t rank) const override {
    if (!is_present(rank)) return absence_of(rank);
    if (ranges_of(rank)) return std::nullopt;
    try {
      const auto file = file_of(rank);
      // It will have been closed before its tensors are read.
      if (!present_ || present_->size() > kMostOpenFiles) keep_ranges(rank, *file);
      return std::nullopt;
    } catch (const base::InputError& error) {
      return error.what();
    }
  }

  std::unique_ptr<Dataset> open(std::uint64_t rank, const std::string& dataset) const override {
    if (const auto ranges = ranges_of(rank)) {
      if (auto opened = ranges->open(dataset)) return opened;
    }
    const auto file = file_of(rank);
    keep_ranges(rank, *file);
    return file->open_dataset(dataset);
  }

 private:
  void list_ranks() {
    try {
      present_ = ranks_with_files(path_);
    } catch (const base::InputError&) {
      // A folder that this user may not list: its files are looked for one by one.
    }
  }

  // Asked of the list of the folder: a manifest of a few bytes may claim a million ranks, and
  // looking for the file of each takes half a minute.
  bool is_present(std::uint64_t rank) const {
    return !present_ || std::binary_search(present_->begin(), present_->end(), rank);
  }
  std::string absence_of(std::uint64_t rank) const {
    return base::concat(rank_file(rank), ": ", base::reading_problem(ENOENT));
  }

  std::shared_ptr<const range::RangeFile> ranges_of(std::uint64_t rank) const {
    const std::lock_guard lock(mutex_);
    const auto found = ranges_.find(rank);
    return found == ranges_.end() ? nullptr : found->second;
  }

  // Every tensor visits all ranks again in the same order, so the first ranks are kept.
  void keep_ranges(std::uint64_t rank, const File& file) const {
    const auto ranges = file.ranges();
    if (!ranges) return;
    const std::lock_guard lock(mutex_);
    ranges_.emplace(rank, ranges);
  }

  // Keeps the files that were used last open. A run of thousands of ranks has more files than a
  // process may open.
  std::shared_ptr<const File> file_of(std::uint64_t rank) const {
    if (!is_present(rank)) throw base::input_error(absence_of(rank));
    const std::lock_guard lock(mutex_);
    if (const auto problem = problems_.find(rank); problem != problems_.end()) {
      throw base::input_error(problem->second);
    }
    for (auto it = open_.begin(); it != open_.end(); ++it) {
      if (it->first == rank) {
        open_.splice(open_.begin(), open_, it);
        return open_.front().second;
      }
    }
    try {
      open_.emplace_front(rank, open_rank_file(rank_file(rank), rank));
    } catch (const base::InputError& error) {
      problems_.emplace(rank, error.what());
      throw;
    }
    if (open_.size() > kMostOpenFiles) open_.pop_back();
    return open_.front().second;
  }

  std::string path_;
  Manifest manifest_;
  std::uint64_t checksum_ = 0;                         // of the manifest's text
  std::optional<std::vector<std::uint64_t>> present_;  // ranks that have a file, ascending
  mutable std::mutex mutex_;
  mutable std::list<std::pair<std::uint64_t, std::shared_ptr<const File>>> open_;
  mutable std::map<std::uint64_t, std::string> problems_;
  mutable std::unordered_map<std::uint64_t, std::shared_ptr<const range::RangeFile>> ranges_;
};

}  // namespace

std::unique_ptr<Source> open_trace(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return std::make_unique<DirectoryTrace>(path);
  return std::make_unique<SingleFileTrace>(path, File::open(path));
}

std::unique_ptr<Source> open_trace(const std::string& path, Manifest manifest) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    return std::make_unique<DirectoryTrace>(path, std::move(manifest));
  }
  return std::make_unique<SingleFileTrace>(path, File::open(path), std::move(manifest));
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
  std::snprintf(buffer.data(), buffer.size(), "rank_%05llu.h5",
                static_cast<unsigned long long>(rank));
  return buffer.data();
}

RangeCheck check_ranges(const std::string& path) {
  RangeCheck check;
  const auto file = File::open(path);
  const auto find = [&](const auto&... parts) {
    check.findings.push_back(base::concat(path, ": ", base::printable(base::concat(parts...))));
  };
  std::optional<PlacedTable> table;
  try {
    table = file->ranges_table();
    if (!table) return check;
    require_sealed(table->text, table->at, *file->opened());
  } catch (const base::InputError& error) {
    check.warning = base::concat(path, ": ", base::printable(error.what()),
                                 ", so HDF5 opens its tensors, which takes longer");
    return check;
  }
  range::for_each_range(table->text, [&](std::string_view name, const range::StoredRange& range) {
    try {
      const auto stored = file->open_by_library(std::string(name));
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

std::vector<std::uint64_t> ranks_with_files(const std::string& directory) {
  std::vector<std::uint64_t> ranks;
  std::error_code error;
  fs::directory_iterator item(directory, error);
  for (; !error && item != fs::directory_iterator(); item.increment(error)) {
    if (const auto rank = rank_named(item->path().filename().string())) ranks.push_back(*rank);
  }
  if (error) throw base::input_error(directory, ": ", base::reading_problem(error.value()));
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

Manifest read_rank_manifest(const std::string& directory, std::uint64_t rank) {
  const std::string path = (fs::path(directory) / rank_file_name(rank)).string();
  const auto file = open_rank_file(path, rank);
  if (!file->has("/manifest")) {
    throw base::input_error(path,
                            ": /manifest: there is no such dataset, so the rank's part of the "
                            "manifest is lost");
  }
  return parse_manifest(file->read_string("/manifest"), path + ": /manifest");
}

}  // namespace ttrace::trace::hdf5
