#include "trace/hdf5/rank_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "trace/hdf5/reader.h"

namespace ttrace::trace::hdf5 {

std::string rank_file_name(std::uint64_t rank) {
  std::array<char, 40> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "rank_%05llu.h5",
                static_cast<unsigned long long>(rank));
  return buffer.data();
}

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

namespace {

namespace fs = std::filesystem;

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

}  // namespace

std::vector<std::uint64_t> ranks_with_files(const std::string& directory) {
  std::vector<std::uint64_t> ranks;
  std::error_code error;
  fs::directory_iterator item(directory, error);
  for (; !error && item != fs::directory_iterator(); item.increment(error)) {
    if (const auto rank = rank_named(item->path().filename().string())) ranks.push_back(*rank);
  }
  if (error) throw base::input_error(directory, ": ", error.message());
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

Manifest read_rank_part(const std::string& directory, std::uint64_t rank) {
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
