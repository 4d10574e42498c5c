#include "trace/open/storages.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/message.h"
#include "base/text.h"
#include "trace/hdf5/trace_files.h"
#include "trace/run_id.h"
#include "trace/safetensors/tensor_file.h"

namespace ttrace::trace {

namespace {

const StorageKind& of_suffix(const std::string& path) {
  const auto all = storages();
  const auto known = std::find_if(all.begin(), all.end(), [&](const StorageKind& storage) {
    return path.ends_with(storage.suffix);
  });
  return known == all.end() ? all.front() : *known;
}

}  // namespace

std::span<const StorageKind> storages() {
  static const std::array all{hdf5::storage(), safetensors::storage()};
  return all;
}

std::shared_ptr<const RankFile> open_by_content(const std::string& path, bool grows) {
  constexpr std::size_t kHead = 512;
  const auto all = storages();
  std::string head(kHead, '\0');
  std::error_code error;
  std::uint64_t bytes = 0;
  // Reading a FIFO or a device could block for ever.
  if (std::filesystem::is_regular_file(path, error)) {
    bytes = std::filesystem::file_size(path, error);
    std::ifstream file(path, std::ios::binary);
    file.read(head.data(), static_cast<std::streamsize>(head.size()));
    head.resize(static_cast<std::size_t>(file.gcount()));
  }
  const auto known = std::find_if(all.begin(), all.end(), [&](const StorageKind& storage) {
    return !error && storage.recognises(head, bytes);
  });
  return (known == all.end() ? of_suffix(path) : *known).open(path, grows);
}

std::string run_of(const RankFile& file, const std::string& path) {
  const std::string stamped = file.stamped_run().value_or("");
  std::string embedded;
  std::string place;
  try {
    const EmbeddedManifest manifest = file.manifest();
    place = manifest.place;
    if (manifest.text) embedded = run_id_within(*manifest.text).value_or("");
  } catch (const base::InputError&) {
    // Tensors are read without the manifest inside, and its damage is told where it is needed.
  }
  if (!stamped.empty() && !embedded.empty() && stamped != embedded) {
    throw base::input_error(
        path, ": ",
        base::render({"says that it is of the run {stamped} (ttrace_run) and of the run "
                      "{embedded} ({place}), so files were mixed; record again",
                      {{"stamped", base::excerpt(stamped)},
                       {"embedded", base::excerpt(embedded)},
                       {"place", place}}}));
  }
  return stamped.empty() ? embedded : stamped;
}

void require_run(const std::string& path, std::uint64_t rank, const std::string& said,
                 const std::string& expected) {
  if (fit_of(said, rank, expected) != RunFit::kOther) return;
  throw base::input_error(
      path, ": ",
      base::render({"is a file of another run, {said}, in the trace of the run {expected}; copy "
                    "the file that rank {rank} wrote in that run here, or record again",
                    {{"said", base::excerpt(said)},
                     {"expected", base::excerpt(expected)},
                     {"rank", rank}}}));
}

std::shared_ptr<const RankFile> open_rank_file(const std::string& path, std::uint64_t rank,
                                               bool grows) {
  auto file = of_suffix(path).open(path, grows);
  const auto written_by = file->written_by();
  if (written_by && *written_by != rank) {
    throw base::input_error(path, ": was written by rank ", *written_by,
                            " (ttrace_rank), not by rank ", rank,
                            "; were files renamed or copied over each other?");
  }
  return file;
}

}  // namespace ttrace::trace
