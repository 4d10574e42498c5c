// The corpus of merged manifests, which the collector's tests read too (schemas/trace-v2.md,
// "Merging").
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "layout/merge_manifests.h"
#include "support/catch.h"

namespace ttrace::layout::manifest_merge_corpus_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using test::merge_manifests;

std::vector<fs::path> corpus() {
  const fs::path folder = fs::path(TTRACE_SOURCE_DIR) / "tests/conformance/manifest_merge";
  std::vector<fs::path> cases;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") cases.push_back(entry.path());
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

TEST_CASE("the ranks' manifests are merged as the corpus says") {
  const std::vector<fs::path> cases = corpus();
  CHECK(cases.size() >= 25);
  for (const fs::path& path : cases) {
    std::ifstream file(path);
    const Json one = Json::parse(file);
    INFO(path.filename().string() << ": " << one.at("about").get<std::string>());
    std::map<std::uint64_t, trace::Manifest> ranks;
    for (const Json& manifest : one.at("ranks")) {
      ranks.emplace(ranks.size(), trace::parse_manifest(manifest.dump(), "of a rank"));
    }
    const Json& merged = one.at("merged");
    if (merged.is_null()) {
      CHECK_THROWS_AS(merge_manifests(ranks), base::InputError);
      continue;
    }
    CHECK(trace::manifest_text(merge_manifests(ranks).manifest) ==
          trace::manifest_text(trace::parse_manifest(merged.dump(), "merged")));
  }
}

}  // namespace
}  // namespace ttrace::layout::manifest_merge_corpus_test
