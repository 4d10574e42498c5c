// The files of ranks in a run's folder: rank_00003.h5, or the same with the suffix of another
// storage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ttrace::trace {

// Whether a file of this name would be a rank's.
bool names_rank_file(std::string_view name);

// The file of one rank, looked for without a list of its folder.
struct FoundRankFile {
  std::string path;                    // as RankFolder::file
  std::optional<std::string> problem;  // as RankFolder::problem
};
FoundRankFile find_rank_file(const std::string& folder, std::uint64_t rank);

// The files as they are when this is made.
class RankFolder {
 public:
  // In a folder that this user may not list, files are looked for one by one.
  explicit RankFolder(std::string path);

  // Ranks that have a file, ascending; nothing if the folder cannot be listed.
  const std::optional<std::vector<std::uint64_t>>& ranks() const { return ranks_; }
  // The errno of the listing, or 0.
  int error() const { return error_; }
  // The rank's file; the name that the collector gives it if there is none. The first of two.
  std::string file(std::uint64_t rank) const;
  // Why there is no such file, or which of several files it is cannot be known; or nothing.
  std::optional<std::string> problem(std::uint64_t rank) const;

 private:
  struct Found {
    std::uint64_t rank = 0;
    std::size_t storage = 0;  // in storages()

    auto operator<=>(const Found&) const = default;
  };

  std::vector<std::size_t> storages_of(std::uint64_t rank) const;

  std::string path_;
  // A manifest of a few bytes may claim a million ranks, and looking for the file of each takes
  // half a minute.
  std::vector<Found> found_;  // ascending
  std::optional<std::vector<std::uint64_t>> ranks_;
  int error_ = 0;
};

}  // namespace ttrace::trace
