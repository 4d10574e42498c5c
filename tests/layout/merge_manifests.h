// The manifests of all ranks at once, as the tests write them.
#pragma once

#include <cstdint>
#include <map>

#include "layout/manifest_merge.h"

namespace ttrace::test {

inline layout::MergedManifest merge_manifests(
    const std::map<std::uint64_t, trace::Manifest>& parts) {
  layout::ManifestMerge all;
  for (const auto& [rank, part] : parts) all.add(rank, part);
  return all.finish();
}

}  // namespace ttrace::test
