#include "trace/open/directory_trace.h"

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/message.h"
#include "base/text.h"
#include "trace/foreign_file.h"
#include "trace/open/fingerprint.h"
#include "trace/open/rank_folder.h"
#include "trace/open/storages.h"
#include "trace/run_id.h"

namespace ttrace::trace {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostOpenFiles = 128;

// Throws an input error if the folder has no manifest.json that can be read.
std::string read_manifest_of(const std::string& folder, const std::string& manifest) {
  std::error_code error;
  const bool exists = fs::exists(manifest, error);
  if (error && !exists) {
    throw base::input_error(manifest, ": cannot be read: ", base::reading_problem(error.value()));
  }
  if (!exists) {
    const std::string foreign = describe_foreign_folder(folder);
    if (!foreign.empty()) throw base::input_error(folder, ": ", foreign);
    throw base::input_error(manifest,
                            ": there is no such file, so this directory is not a trace, or its "
                            "job died before the last rank had written; `ttrace lint --write ",
                            folder, "` rebuilds it from the rank files");
  }
  return base::read_text(manifest);
}

class DirectoryTrace : public Source {
 public:
  // `text`: of the manifest. `grows`: whether the job may still add steps. The folder is listed
  // when the manifest is known, which its job writes last.
  DirectoryTrace(std::string path, const std::string& text, Manifest manifest, bool grows)
      : path_(std::move(path)),
        grows_(grows),
        folder_(path_),
        manifest_(std::move(manifest)),
        run_(manifest_.run.id),
        checksum_(base::xxh64(std::as_bytes(std::span(text)))) {
    if (run_.empty()) run_ = run_of_first_file();
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
    for (const std::uint64_t rank : folder_.ranks().value_or(std::vector<std::uint64_t>{})) {
      files.push_back(rank_file(rank));
    }
    return fingerprint_of(files, checksum_);
  }

  std::string rank_file(std::uint64_t rank) const override { return folder_.file(rank); }

  std::optional<std::string> rank_problem(std::uint64_t rank) const override {
    if (auto problem = folder_.problem(rank)) return problem;
    if (ranges_of(rank)) return std::nullopt;
    try {
      const auto file = file_of(rank);
      // It will have been closed before its tensors are read.
      if (!folder_.ranks() || folder_.ranks()->size() > kMostOpenFiles) keep_ranges(rank, *file);
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
  // Where the manifest names no run, all files are to be of one.
  std::string run_of_first_file() const {
    if (!folder_.ranks() || folder_.ranks()->empty()) return "";
    const std::uint64_t first = folder_.ranks()->front();
    const std::string path = rank_file(first);
    try {
      return run_of(*open_rank_file(path, first), path);
    } catch (const base::InputError&) {
      return "";  // told where its tensors are read
    }
  }

  // Opens the file of a rank. Throws an input error if it is of another run than the manifest.
  std::shared_ptr<const RankFile> open_of_run(std::uint64_t rank) const {
    const std::string path = rank_file(rank);
    auto file = open_rank_file(path, rank, grows_);
    if (run_.empty()) return file;
    const std::string said = run_of(*file, path);
    require_run(path, rank, said, run_);
    if (!has_remarked_ && fit_of(said, rank, run_) == RunFit::kUnsaid) {
      has_remarked_ = true;
      base::warn(
          base::render({"{file} does not say of which run it is (ttrace_run), so a file of another "
                        "run would not be "
                        "noticed; give all ranks one id with run= of trace()",
                        {{"file", path}}}));
    }
    return file;
  }

  std::shared_ptr<const range::RangeFile> ranges_of(std::uint64_t rank) const {
    const std::lock_guard lock(mutex_);
    const auto found = ranges_.find(rank);
    return found == ranges_.end() ? nullptr : found->second;
  }

  // Every tensor visits all ranks again in the same order, so the first ranks are kept.
  void keep_ranges(std::uint64_t rank, const RankFile& file) const {
    const auto ranges = file.ranges();
    if (!ranges) return;
    const std::lock_guard lock(mutex_);
    ranges_.emplace(rank, ranges);
  }

  // Keeps the files that were used last open. A run of thousands of ranks has more files than a
  // process may open.
  std::shared_ptr<const RankFile> file_of(std::uint64_t rank) const {
    if (const auto problem = folder_.problem(rank)) throw base::input_error(*problem);
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
      open_.emplace_front(rank, open_of_run(rank));
    } catch (const base::InputError& error) {
      problems_.emplace(rank, error.what());
      throw;
    }
    if (open_.size() > kMostOpenFiles) open_.pop_back();
    return open_.front().second;
  }

  std::string path_;
  bool grows_;
  RankFolder folder_;
  Manifest manifest_;
  std::string run_;             // its id, or that of the first file where the manifest has none
  std::uint64_t checksum_ = 0;  // of the manifest's text
  mutable std::mutex mutex_;
  mutable std::list<std::pair<std::uint64_t, std::shared_ptr<const RankFile>>> open_;
  mutable std::map<std::uint64_t, std::string> problems_;
  mutable bool has_remarked_ = false;
  mutable std::unordered_map<std::uint64_t, std::shared_ptr<const range::RangeFile>> ranges_;
};

}  // namespace

std::unique_ptr<Source> open_directory(const std::string& path) {
  const std::string file = (fs::path(path) / "manifest.json").string();
  const std::string text = read_manifest_of(path, file);
  return std::make_unique<DirectoryTrace>(path, text, parse_manifest(text, file), false);
}

std::unique_ptr<Source> open_directory(const std::string& path, Manifest manifest) {
  const std::string text = manifest_text(manifest);
  return std::make_unique<DirectoryTrace>(path, text, std::move(manifest), true);
}

std::string file_identity(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return "";
  return base::concat(facts.st_dev, ":", facts.st_ino);
}

}  // namespace ttrace::trace
