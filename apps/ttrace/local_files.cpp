#include "local_files.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "inputs.h"
#include "layout/mesh.h"
#include "trace/elsewhere.h"
#include "trace/open/fingerprint.h"
#include "trace/open/storages.h"

namespace ttrace::app {
namespace {

bool is_here(const std::string& file) {
  std::error_code error;
  return std::filesystem::exists(file, error);
}

// The names that an absent rank's file may have on another machine, that of a file beside it first.
std::vector<std::string> names_elsewhere(const std::string& file, std::string_view beside) {
  const auto with = [&file](std::string_view suffix) {
    return std::filesystem::path(file).replace_extension(suffix).string();
  };
  std::vector<std::string> names;
  for (const trace::StorageKind& storage : trace::storages()) {
    const bool first = beside.ends_with(storage.suffix);
    names.insert(first ? names.begin() : names.end(), with(storage.suffix));
  }
  return names;
}

}  // namespace

void add_files_here(const trace::Source& source, std::map<std::string, std::string>& files) {
  for (const std::uint64_t rank : layout::ranks_of(source.manifest())) {
    const std::string file = source.rank_file(rank);
    if (files.contains(file) || !is_here(file)) continue;
    const trace::Fingerprint print = trace::fingerprint_of({file}, 0);
    files.emplace(file, base::concat(print.bytes, " bytes, with checksum ", print.content));
  }
}

std::unique_ptr<trace::Source> open_local(const std::string& path, const LocalFiles& local) {
  std::unique_ptr<trace::Source> source = open_and_log(path);
  if (!local.given) return source;
  const std::vector<std::uint64_t> ranks = layout::ranks_of(source->manifest());
  std::string beside;
  for (const std::uint64_t rank : ranks) {
    if (is_here(source->rank_file(rank))) beside = source->rank_file(rank);
  }
  std::map<std::uint64_t, std::string> elsewhere;
  for (const std::uint64_t rank : ranks) {
    const std::string file = source->rank_file(rank);
    if (is_here(file)) continue;
    const std::vector<std::string> names = names_elsewhere(file, beside);
    const auto had = std::find_if(names.begin(), names.end(), [&local](const std::string& name) {
      return !local.had || local.had->contains(name);
    });
    if (had != names.end()) elsewhere.emplace(rank, *had);
  }
  if (elsewhere.empty()) return source;
  return std::make_unique<trace::PartlyElsewhere>(std::move(source), std::move(elsewhere));
}

void add_manifest(const trace::Source& source, comparison::ComparisonId& id) {
  id.facts.emplace_back(base::concat("the manifest of the trace ", source.path()),
                        base::concat("of checksum ", source.fingerprint().manifest));
}

}  // namespace ttrace::app
