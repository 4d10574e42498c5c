#include "trace/open/rank_folder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/text.h"
#include "trace/open/storages.h"

namespace ttrace::trace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "rank_";

std::string name_of(std::uint64_t rank, const StorageKind& storage) {
  std::array<char, 40> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "rank_%05llu", static_cast<unsigned long long>(rank));
  return base::concat(buffer.data(), storage.suffix);
}

std::optional<std::uint64_t> rank_named(std::string_view file, const StorageKind& storage) {
  if (!file.starts_with(kPrefix)) return std::nullopt;
  std::uint64_t rank = 0;
  const auto digits =
      std::from_chars(file.data() + kPrefix.size(), file.data() + file.size(), rank);
  // rank_7.h5, rank_00007.h5.tmp: the name would be another one.
  if (digits.ec != std::errc() || name_of(rank, storage) != file) return std::nullopt;
  return rank;
}

// The storages whose name of the rank's file exists.
std::vector<std::size_t> existing(const std::string& folder, std::uint64_t rank) {
  std::vector<std::size_t> has;
  std::error_code error;
  for (std::size_t i = 0; i < storages().size(); ++i) {
    if (fs::exists(fs::path(folder) / name_of(rank, storages()[i]), error)) has.push_back(i);
  }
  return has;
}

std::string path_of(const std::string& folder, std::uint64_t rank,
                    const std::vector<std::size_t>& has) {
  const StorageKind& storage = storages()[has.empty() ? 0 : has.front()];
  return (fs::path(folder) / name_of(rank, storage)).string();
}

// Why it cannot be known which of several files is the rank's.
std::optional<std::string> ambiguity(const std::string& folder, std::uint64_t rank,
                                     const std::vector<std::size_t>& has) {
  if (has.size() < 2) return std::nullopt;
  return base::concat(path_of(folder, rank, has), ": ", name_of(rank, storages()[has[1]]),
                      " lies beside it, and only one of them can be the file of rank ", rank,
                      "; move the one that is not of this run away");
}

}  // namespace

bool names_rank_file(std::string_view name) {
  const auto all = storages();
  return name.starts_with(kPrefix) &&
         std::any_of(all.begin(), all.end(),
                     [&](const StorageKind& storage) { return name.ends_with(storage.suffix); });
}

RankFolder::RankFolder(std::string path) : path_(std::move(path)) {
  std::error_code error;
  fs::directory_iterator item(path_, error);
  const auto all = storages();
  for (; !error && item != fs::directory_iterator(); item.increment(error)) {
    const std::string name = item->path().filename().string();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (const auto rank = rank_named(name, all[i])) found_.push_back({*rank, i});
    }
  }
  error_ = error.value();
  if (error) return;
  std::sort(found_.begin(), found_.end());
  ranks_.emplace();
  for (const Found& one : found_) {
    if (ranks_->empty() || ranks_->back() != one.rank) ranks_->push_back(one.rank);
  }
}

std::vector<std::size_t> RankFolder::storages_of(std::uint64_t rank) const {
  if (!ranks_) return existing(path_, rank);
  std::vector<std::size_t> has;
  for (auto one = std::lower_bound(found_.begin(), found_.end(), Found{rank, 0});
       one != found_.end() && one->rank == rank; ++one) {
    has.push_back(one->storage);
  }
  return has;
}

std::string RankFolder::file(std::uint64_t rank) const {
  return path_of(path_, rank, storages_of(rank));
}

std::optional<std::string> RankFolder::problem(std::uint64_t rank) const {
  const auto has = storages_of(rank);
  // Where the folder cannot be listed, opening the file says why it cannot be read.
  if (has.empty() && ranks_) {
    return base::concat(path_of(path_, rank, has), ": ", base::reading_problem(ENOENT));
  }
  return ambiguity(path_, rank, has);
}

FoundRankFile find_rank_file(const std::string& folder, std::uint64_t rank) {
  const auto has = existing(folder, rank);
  return {path_of(folder, rank, has), ambiguity(folder, rank, has)};
}

}  // namespace ttrace::trace
