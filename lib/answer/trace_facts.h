// What an answer says of a run that it is about.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trace/manifest.h"
#include "trace/source.h"

namespace ttrace::answer {

struct TraceFacts {
  std::string path;  // as given
  std::uint64_t ranks = 0;
  std::vector<trace::MeshAxis> mesh;  // the default one
  std::vector<std::uint64_t> steps;
  std::string precision;
  std::string run_id = "";  // or empty
  trace::Fingerprint fingerprint = {};
  // What the manifest says of the recording, by member of `identity` in JSON: "recorded_at",
  // "command", "framework", ...; only what it says.
  std::vector<std::pair<std::string, std::string>> recorded = {};
  std::vector<std::uint64_t> mesh_ranks = {};  // of `mesh`, row-major; empty: 0, 1, 2, ...
};

}  // namespace ttrace::answer
