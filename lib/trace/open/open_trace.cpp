#include "trace/open/open_trace.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "base/checksum.h"
#include "base/error.h"
#include "base/text.h"
#include "trace/foreign_file.h"
#include "trace/open/directory_trace.h"
#include "trace/open/fingerprint.h"
#include "trace/open/rank_folder.h"
#include "trace/open/storages.h"

namespace ttrace::trace {
namespace {

namespace fs = std::filesystem;

std::uint64_t checksum_of(const std::string& text) {
  return base::xxh64(std::as_bytes(std::span(text)));
}

class SingleFileTrace : public Source {
 public:
  SingleFileTrace(std::string path, std::shared_ptr<const RankFile> file)
      : path_(std::move(path)), file_(std::move(file)) {
    const EmbeddedManifest embedded = file_->manifest();
    if (!embedded.text) {
      const std::string foreign = describe_foreign_file(path_);
      if (!foreign.empty()) throw base::input_error(path_, ": ", foreign);
      throw base::input_error(path_, ": ", embedded.place,
                              ": there is no such dataset, so this is not a trace; it "
                              "was perhaps written by another program");
    }
    const std::uint64_t rank = file_->written_by().value_or(0);
    if (rank != 0) {
      throw base::input_error(path_, ": was written by rank ", rank,
                              " (ttrace_rank), but a single file holds rank 0; give the directory "
                              "with all rank files");
    }
    run_of(*file_, path_);
    const std::string name = path_ + ": " + embedded.place;
    manifest_ = parse_manifest(*embedded.text, name);
    checksum_ = checksum_of(*embedded.text);
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

  SingleFileTrace(std::string path, std::shared_ptr<const RankFile> file, Manifest manifest)
      : path_(std::move(path)),
        file_(std::move(file)),
        manifest_(std::move(manifest)),
        checksum_(checksum_of(manifest_text(manifest_))) {
    require_run(path_, 0, run_of(*file_, path_), manifest_.run.id);
  }

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
  std::shared_ptr<const RankFile> file_;
  Manifest manifest_;
  std::uint64_t checksum_ = 0;  // of the manifest's text
};

}  // namespace

std::unique_ptr<Source> open_trace(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return open_directory(path);
  return std::make_unique<SingleFileTrace>(path, open_by_content(path));
}

std::unique_ptr<Source> open_trace(const std::string& path, Manifest manifest) {
  std::error_code error;
  if (fs::is_directory(path, error)) return open_directory(path, std::move(manifest));
  return std::make_unique<SingleFileTrace>(path, open_by_content(path, true), std::move(manifest));
}

bool names_single_file(const std::string& path) {
  const auto all = storages();
  return std::any_of(all.begin(), all.end(),
                     [&](const StorageKind& storage) { return path.ends_with(storage.suffix); });
}

RangeCheck check_ranges(const std::string& file) { return open_by_content(file)->check_ranges(); }

std::vector<std::uint64_t> ranks_with_files(const std::string& directory) {
  const RankFolder folder(directory);
  if (folder.ranks()) return *folder.ranks();
  throw base::input_error(directory, ": ", base::reading_problem(folder.error()));
}

std::string rank_file(const std::string& directory, std::uint64_t rank) {
  return find_rank_file(directory, rank).path;
}

Manifest read_rank_manifest(const std::string& directory, std::uint64_t rank) {
  const FoundRankFile found = find_rank_file(directory, rank);
  if (found.problem) throw base::input_error(*found.problem);
  const auto file = open_rank_file(found.path, rank);
  run_of(*file, found.path);
  const EmbeddedManifest embedded = file->manifest();
  if (!embedded.text) {
    throw base::input_error(found.path, ": ", embedded.place,
                            ": there is no such dataset, so the rank's part of the "
                            "manifest is lost");
  }
  return parse_manifest(*embedded.text, found.path + ": " + embedded.place);
}

}  // namespace ttrace::trace
