#include "local_files.h"

#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/text.h"
#include "inputs.h"
#include "layout/mesh.h"
#include "trace/elsewhere.h"
#include "trace/open/fingerprint.h"

namespace ttrace::app {
namespace {

bool is_here(const std::string& file) {
  std::error_code error;
  return std::filesystem::exists(file, error);
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
  std::set<std::uint64_t> elsewhere;
  for (const std::uint64_t rank : layout::ranks_of(source->manifest())) {
    const std::string file = source->rank_file(rank);
    if (is_here(file)) continue;
    if (!local.had || local.had->contains(file)) elsewhere.insert(rank);
  }
  if (elsewhere.empty()) return source;
  return std::make_unique<trace::PartlyElsewhere>(std::move(source), std::move(elsewhere));
}

void add_manifest(const trace::Source& source, comparison::ComparisonId& id) {
  id.facts.emplace_back(base::concat("the manifest of the trace ", source.path()),
                        base::concat("of checksum ", source.fingerprint().manifest));
}

}  // namespace ttrace::app
