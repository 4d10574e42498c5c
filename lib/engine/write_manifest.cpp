#include "engine/write_manifest.h"

#include "base/error.h"
#include "base/number_text.h"
#include "layout/mesh_map.h"
#include "layout/unite.h"

namespace ttrace::engine {

RebuiltManifest rebuild_manifest(const std::string& run, const std::vector<std::uint64_t>& ranks,
                                 const std::function<trace::Manifest(std::uint64_t)>& part_of) {
  if (ranks.empty()) {
    throw base::input_error(run,
                            ": no rank_*.h5 in it, so there is nothing to rebuild manifest.json "
                            "from; give the directory that the job wrote its rank files to");
  }
  RebuiltManifest rebuilt;
  layout::ManifestUnion all;
  for (const std::uint64_t rank : ranks) {
    try {
      all.add(rank, part_of(rank));
      ++rebuilt.parts;
    } catch (const base::Error& error) {
      if (error.kind() != base::ErrorKind::kInput) throw;
      rebuilt.findings.emplace_back(error.what());
    }
  }
  if (rebuilt.parts == 0) {
    throw base::input_error(run, ": no part of the manifest in ",
                            base::plural(ranks.size(), "rank file"), ": ", rebuilt.findings[0]);
  }
  try {
    layout::United united = all.finish();
    rebuilt.ranks = layout::ranks_of(united.manifest).size();
    for (const std::string& finding : united.findings) {
      rebuilt.findings.push_back(base::concat(run, ": ", finding));
    }
    rebuilt.text = trace::manifest_text(united.manifest);
  } catch (const base::Error& error) {
    throw error.in(run);
  }
  // Nothing is put in place that could not be read again.
  trace::parse_manifest(rebuilt.text, base::concat(run, ": the rebuilt manifest"));
  return rebuilt;
}

}  // namespace ttrace::engine
