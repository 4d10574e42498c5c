#include "layout/absent_shards.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/text.h"
#include "layout/mesh.h"
#include "trace/manifest.h"

namespace ttrace::layout {
namespace {

using Ranks = std::set<std::uint64_t>;

// The kinds that a rank has of every parameter that its optimizer updates.
constexpr std::array kKinds{trace::Kind::kParam, trace::Kind::kMainGrad,
                            trace::Kind::kParamAfterStep};

// The entries of one parameter in one step: at most one of each of kKinds.
using OfParameter = std::span<const trace::TensorEntry* const>;

// The key without the kind.
auto parameter_of(const trace::TensorEntry& entry) {
  const trace::TensorKey& key = entry.key;
  return std::tie(key.step, key.microbatch, key.name, key.call, key.copy);
}

// Returns all entries of kKinds, those of one parameter side by side. None where they are of one
// kind: a parameter then has one entry.
std::vector<const trace::TensorEntry*> by_parameter(const trace::Manifest& manifest) {
  // A million names are compared faster by their hashes; the order of parameters does not matter.
  std::vector<std::pair<std::size_t, const trace::TensorEntry*>> hashed;
  std::set<trace::Kind> kinds;
  for (const trace::TensorEntry& entry : manifest.tensors) {
    const trace::Kind kind = entry.key.kind;
    if (std::find(kKinds.begin(), kKinds.end(), kind) == kKinds.end()) continue;
    kinds.insert(kind);
    hashed.emplace_back(std::hash<std::string_view>{}(entry.key.name), &entry);
  }
  if (kinds.size() < 2) return {};
  std::sort(hashed.begin(), hashed.end(), [](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first < b.first;
    return std::tuple(parameter_of(*a.second), a.second->key.kind) <
           std::tuple(parameter_of(*b.second), b.second->key.kind);
  });
  std::vector<const trace::TensorEntry*> entries;
  entries.reserve(hashed.size());
  for (const auto& [hash, entry] : hashed) entries.push_back(entry);
  return entries;
}

// Whether the entries name the same coordinates of every axis, so that the same ranks have them.
bool held_alike(const trace::TensorEntry& first, const trace::TensorEntry& second,
                const trace::Mesh& mesh) {
  if (first.mesh != second.mesh) return false;
  if (first.held_at == second.held_at && first.placements == second.placements) return true;
  const std::vector<AxisView> views = axis_views(first, mesh);
  const std::vector<AxisView> others = axis_views(second, mesh);
  return std::equal(
      views.begin(), views.end(), others.begin(), others.end(),
      [](const AxisView& view, const AxisView& other) { return view.held == other.held; });
}

Ranks holders_of(const trace::TensorEntry& entry, const trace::Mesh& mesh) {
  Ranks ranks;
  const std::vector<AxisView> views = axis_views(entry, mesh);
  for_each_position(views, [&](const std::vector<std::uint64_t>& position) {
    ranks.insert(rank_of(views, mesh, position));
  });
  return ranks;
}

// Whether the placements leave the rank out: off the mesh, or not at the only coordinate.
bool left_out(const trace::TensorEntry& entry, const trace::Mesh& mesh, const Ranks& ranks_of_mesh,
              std::uint64_t rank) {
  if (!ranks_of_mesh.contains(rank)) return true;
  const std::vector<std::uint64_t> coordinates = coordinates_of(mesh, rank);
  for (std::size_t a = 0; a < coordinates.size(); ++a) {
    const auto* only = std::get_if<trace::Only>(&placement_on(entry, mesh.axes[a].name));
    if (only != nullptr && only->coordinate != coordinates[a]) return true;
  }
  return false;
}

// Adds the ranks that have another tensor of the parameter and lack the entry's.
void add_lacking(const trace::Manifest& manifest, OfParameter parameter,
                 std::map<trace::TensorKey, Ranks>& absent) {
  Ranks all;
  for (const trace::TensorEntry* entry : parameter) {
    all.merge(holders_of(*entry, manifest.meshes.at(entry->mesh)));
  }
  for (const trace::TensorEntry* entry : parameter) {
    if (entry->key.kind == trace::Kind::kParam) continue;
    if (trace::was_asked_for(manifest, entry->key) == false) continue;
    const trace::Mesh& mesh = manifest.meshes.at(entry->mesh);
    const Ranks there = holders_of(*entry, mesh);
    const std::vector<std::uint64_t> listed = ranks_of({{entry->mesh, mesh}});
    const Ranks of_mesh(listed.begin(), listed.end());
    for (const std::uint64_t rank : all) {
      if (!there.contains(rank) && !left_out(*entry, mesh, of_mesh, rank)) {
        absent[entry->key].insert(rank);
      }
    }
  }
}

}  // namespace

std::vector<AbsentShards> absent_shards(const trace::Manifest& manifest) {
  std::map<trace::TensorKey, Ranks> absent;
  for (const trace::TensorEntry& entry : manifest.tensors) {
    if (!entry.absent_on->empty()) {
      absent[entry.key].insert(entry.absent_on->begin(), entry.absent_on->end());
    }
  }
  const std::vector<const trace::TensorEntry*> entries = by_parameter(manifest);
  for (auto first = entries.begin(); first != entries.end();) {
    const auto end = std::find_if(first, entries.end(), [&first](const auto* entry) {
      return parameter_of(*entry) != parameter_of(**first);
    });
    const trace::Mesh& mesh = manifest.meshes.at((*first)->mesh);
    const bool alike = std::all_of(
        first + 1, end, [&](const auto* entry) { return held_alike(**first, *entry, mesh); });
    // Nearly all parameters are alike, and there may be a million of them on thousands of ranks.
    if (!alike) add_lacking(manifest, {first, end}, absent);
    first = end;
  }
  const std::vector<std::uint64_t>& open = manifest.run.unfinished;
  std::vector<AbsentShards> found;
  for (const auto& [key, ranks] : absent) {
    AbsentShards absent_one{key, {}};
    std::set_difference(ranks.begin(), ranks.end(), open.begin(), open.end(),
                        std::back_inserter(absent_one.ranks));
    if (!absent_one.ranks.empty()) found.push_back(std::move(absent_one));
  }
  return found;
}

std::string describe_absence(const AbsentShards& absent, std::uint64_t ranks_of_run) {
  return base::concat(describe_ranks(absent.ranks), " of ", ranks_of_run, " recorded step ",
                      absent.key.step, " but ", absent.ranks.size() == 1 ? "lacks" : "lack", " it");
}

}  // namespace ttrace::layout
