#include "localize/causes/gradient_parts.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/message.h"
#include "layout/mesh.h"
#include "trace/normed_parts.h"

namespace ttrace::localize {
namespace {

constexpr std::uint64_t kMostCoordinates = 64;

// A main gradient as the candidate's ranks hold it.
struct Gradient {
  std::string mesh;
  const std::vector<measure::BlockStats>* shards = nullptr;
};

std::vector<Gradient> gradients_of(const Related& related, const NormedGradients& of) {
  const trace::NormedParts parts(related.candidate_run().manifest());
  std::vector<Gradient> found;
  for (const auto* record : related.of_kind(trace::Kind::kMainGrad)) {
    if (record->key.step != of.step) continue;
    if (!parts.counts(of.step, of.part, record->key.name)) continue;
    if (!record->comparison || record->candidate == nullptr) return {};
    found.push_back({layout::stored_in(*record->candidate).front()->mesh,
                     &record->comparison->measurement.blocks});
  }
  return found;
}

// The mesh without a name is the one that all tensors have unless they say otherwise.
std::string describe_mesh_name(const std::string& name) {
  return name.empty() ? base::render({"the default mesh", {}})
                      : base::render({"mesh {mesh}", {{"mesh", name}}});
}

// √Σ C² over the shards that `counts` says how often to count.
template <typename Counts>
double norm(const std::vector<Gradient>& gradients, Counts counts) {
  double sum = 0;
  for (const Gradient& one : gradients) {
    for (const measure::BlockStats& shard : *one.shards) {
      sum += static_cast<double>(counts(one, shard)) * shard.stats.sum_c2;
    }
  }
  return std::sqrt(sum);
}

}  // namespace

std::vector<PartNorm> norms_of_parts(const Related& related, const NormedGradients& of) {
  const std::vector<Gradient> gradients = gradients_of(related, of);
  if (gradients.empty()) return {};
  const auto& meshes = related.candidate_run().manifest().meshes;
  std::vector<PartNorm> parts;
  for (const auto& [name, mesh] : meshes) {
    for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
      const std::uint64_t size = mesh.axes[a].size;
      if (size < 2 || size > kMostCoordinates) continue;
      for (std::uint64_t c = 0; c < size; ++c) {
        std::set<std::uint64_t> ranks;
        for (std::uint64_t i = 0; i < layout::mesh_size(mesh); ++i) {
          if (layout::coordinates_at(mesh, i)[a] == c) ranks.insert(layout::rank_at(mesh, i));
        }
        parts.push_back({base::render({"the gradients of {axis} {coordinate}",
                                       {{"axis", mesh.axes[a].name}, {"coordinate", c}}}),
                         norm(gradients, [&](const Gradient&, const measure::BlockStats& shard) {
                           return std::any_of(
                               shard.owner->ranks.begin(), shard.owner->ranks.end(),
                               [&](std::uint64_t rank) { return ranks.count(rank) > 0; });
                         })});
      }
    }
  }
  std::set<std::string> used;
  for (const Gradient& one : gradients) used.insert(one.mesh);
  for (const std::string& mesh : used) {
    if (used.size() < 2) break;
    const std::string words = describe_mesh_name(mesh);
    parts.push_back({base::render({"the gradients of {mesh}", {{"mesh", words}}}),
                     norm(gradients, [&](const Gradient& one, const measure::BlockStats&) {
                       return one.mesh == mesh;
                     })});
    if (used.size() == 2) continue;  // the others are those of the other mesh
    parts.push_back({base::render({"the gradients of all but {mesh}", {{"mesh", words}}}),
                     norm(gradients, [&](const Gradient& one, const measure::BlockStats&) {
                       return one.mesh != mesh;
                     })});
  }
  parts.push_back({base::render({"all gradients, each copy of a replica counted", {}}),
                   norm(gradients, [](const Gradient&, const measure::BlockStats& shard) {
                     return shard.owner->ranks.size();
                   })});
  return parts;
}

std::optional<double> norm_of_all(const Related& related, const NormedGradients& of) {
  const std::vector<Gradient> gradients = gradients_of(related, of);
  if (gradients.empty()) return std::nullopt;
  return norm(gradients, [](const Gradient&, const measure::BlockStats&) { return 1; });
}

}  // namespace ttrace::localize
