#include "layout/manifest_merge.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/message.h"
#include "base/text.h"
#include "layout/manifest_merge_ranks.h"
#include "layout/mesh.h"
#include "trace/run_id.h"

namespace ttrace::layout {
namespace {

using Numbers = std::vector<std::uint64_t>;
using base::concat;
using base::exact_number;

std::string describe_microbatches(const base::HeapOptional<trace::Microbatches>& whole) {
  using How = trace::Microbatches::How;
  if (!whole) return "none";
  const std::string of = trace::describe_list(whole->numbers);
  if (whole->how == How::kShard) return concat("shard ", whole->dim, " of ", of);
  return concat(whole->how == How::kSum ? "sum " : "mean ", of);
}

const Numbers* find(const std::map<std::string, Numbers>& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? nullptr : &found->second;
}

// Returns what differs at the first axis, by name, that the entries describe differently.
std::optional<EntryDifference> layout_difference(const trace::TensorEntry& first,
                                                 const trace::TensorEntry& second) {
  std::set<std::string_view> axes;
  for (const trace::TensorEntry* entry : {&first, &second}) {
    for (const auto& [axis, placement] : entry->placements) axes.insert(axis);
    for (const auto& [axis, held] : entry->held_at) axes.insert(axis);
  }
  for (const std::string_view name : axes) {
    const std::string axis(name);
    const Numbers* held = find(first.held_at, axis);
    const Numbers* other_held = find(second.held_at, axis);
    if ((held == nullptr) != (other_held == nullptr) || (held != nullptr && *held != *other_held)) {
      const auto describe = [](const Numbers* list) {
        return list == nullptr ? "not given" : trace::describe_list(*list);
      };
      return EntryDifference{concat("held_at/", axis), describe(held), describe(other_held)};
    }
    const trace::Placement& placement = placement_on(first, axis);
    const trace::Placement& other = placement_on(second, axis);
    if (placement != other) {
      return EntryDifference{concat("placements/", axis), trace::describe_exactly(placement),
                             trace::describe_exactly(other)};
    }
  }
  return std::nullopt;
}

bool same_mesh(const trace::Mesh& first, const trace::Mesh& second) {
  const auto same_axis = [](const trace::MeshAxis& a, const trace::MeshAxis& b) {
    return a.name == b.name && a.size == b.size;
  };
  if (!std::equal(first.axes.begin(), first.axes.end(), second.axes.begin(), second.axes.end(),
                  same_axis)) {
    return false;
  }
  if (first.ranks == second.ranks) return true;
  // One mesh may list its ranks in the row-major order that the other one leaves out.
  const std::uint64_t size = mesh_size(first);
  for (std::uint64_t i = 0; i < size; ++i) {
    if (rank_at(first, i) != rank_at(second, i)) return false;
  }
  return true;
}

bool same_meshes(const std::map<std::string, trace::Mesh>& first,
                 const std::map<std::string, trace::Mesh>& second) {
  return std::equal(first.begin(), first.end(), second.begin(), second.end(),
                    [](const auto& a, const auto& b) {
                      return a.first == b.first && same_mesh(a.second, b.second);
                    });
}

// Orders floating-point types from fine to coarse; every other type is below them. tensor::epsilon
// would not do: it is the same for both FP8 types.
int coarseness(tensor::DType dtype) {
  using tensor::DType;
  static constexpr std::array kFineToCoarse{DType::kFloat64,    DType::kFloat32,
                                            DType::kFloat16,    DType::kBFloat16,
                                            DType::kFloat8E4M3, DType::kFloat8E5M2};
  const auto* const place = std::find(kFineToCoarse.begin(), kFineToCoarse.end(), dtype);
  return place == kFineToCoarse.end() ? 0 : 1 + static_cast<int>(place - kFineToCoarse.begin());
}

// By step, then execution order, then key: as the collector sorts them.
bool stands_before(const trace::TensorEntry& a, const trace::TensorEntry& b) {
  const auto place = [](const trace::TensorEntry& entry) {
    const trace::TensorKey& key = entry.key;
    return std::tuple(key.step, entry.order.value_or(0), key.microbatch, trace::kind_name(key.kind),
                      std::string_view(key.name), key.call, key.copy);
  };
  return place(a) < place(b);
}

Numbers without(const Numbers& from, const Numbers& taken) {
  Numbers left;
  std::set_difference(from.begin(), from.end(), taken.begin(), taken.end(),
                      std::back_inserter(left));
  return left;
}

}  // namespace

std::optional<EntryDifference> entry_difference(const trace::TensorEntry& first,
                                                const trace::TensorEntry& second) {
  if (first.dtype != second.dtype) {
    return EntryDifference{"dtype", std::string(tensor::dtype_name(first.dtype)),
                           std::string(tensor::dtype_name(second.dtype))};
  }
  if (first.shape != second.shape) {
    return EntryDifference{"shape", tensor::to_string(first.shape),
                           tensor::to_string(second.shape)};
  }
  if (first.microbatches != second.microbatches) {
    return EntryDifference{"microbatches", describe_microbatches(first.microbatches),
                           describe_microbatches(second.microbatches)};
  }
  if (first.mesh != second.mesh) {
    return EntryDifference{"mesh", concat("\"", first.mesh, "\""), concat("\"", second.mesh, "\"")};
  }
  if (first.scale != second.scale) {
    return EntryDifference{"scale", exact_number(first.scale), exact_number(second.scale)};
  }
  return layout_difference(first, second);
}

void ManifestMerge::add(std::uint64_t rank, trace::Manifest part) {
  if (!ranks_.empty() && rank <= ranks_.back()) {
    throw base::internal_error("parts of rank ", ranks_.back(), " and then of rank ", rank);
  }
  if (ranks_.empty()) {
    whole_.meshes = std::move(part.meshes);
  } else if (!same_meshes(whole_.meshes, part.meshes)) {
    if (of_other_run_.empty()) other_meshes_ = describe_meshes(part.meshes);
    of_other_run_.push_back(rank);
  }
  ranks_.push_back(rank);
  if (run_id_.empty()) run_id_ = part.run.id;
  if (trace::fit_of(part.run.id, rank, run_id_) == trace::RunFit::kOther) {
    if (of_other_id_.empty()) other_id_ = part.run.id;
    of_other_id_.push_back(rank);
  }
  run_.add(rank, std::move(part.run));
  if (!of_other_run_.empty()) return;  // it will be refused
  for (trace::TensorEntry& entry : part.tensors) add_tensor(rank, std::move(entry));
  for (const trace::OptimizerGroup& group : part.optimizer) optimizer_.add(rank, group);
  for (trace::Module& module : part.modules) {
    if (known_modules_.insert(module.name).second) whole_.modules.push_back(std::move(module));
  }
}

void ManifestMerge::add_tensor(std::uint64_t rank, trace::TensorEntry entry) {
  const tensor::DType computed_in = entry.computed_in.value_or(entry.dtype);
  const auto [known, fresh] = known_tensors_.emplace(entry.key, tensors_.size());
  if (fresh) {
    tensors_.push_back({std::move(entry), computed_in, {rank}, {}});
    return;
  }
  Tensor& tensor = tensors_[known->second];
  tensor.ranks.push_back(rank);
  if (coarseness(computed_in) > coarseness(tensor.computed_in)) tensor.computed_in = computed_in;
  if (entry.order) {
    tensor.entry.order = std::min(*entry.order, tensor.entry.order.value_or(*entry.order));
  }
  // The first contradiction is reported, with all ranks that it concerns.
  if (contradiction_ && contradiction_->tensor != known->second) return;
  auto difference = entry_difference(tensor.entry, entry);
  if (!difference) return;
  if (tensor.entry.shape != entry.shape) {
    // Shards may be uneven, which all ranks together tell.
    tensor::Shape shape = std::exchange(entry.shape, tensor.entry.shape);
    if (!entry_difference(tensor.entry, entry)) {
      tensor.other_shapes.emplace(rank, std::move(shape));
      return;
    }
  }
  if (!contradiction_) contradiction_ = Contradiction{known->second, *std::move(difference), {}};
  contradiction_->others.push_back(rank);
}

void ManifestMerge::require_one_run() const {
  if (!of_other_run_.empty()) {
    const Numbers others = without(ranks_, of_other_run_);
    throw base::input_error(describe_ranks(others), others.size() == 1 ? " says" : " say",
                            " the meshes are ", describe_meshes(whole_.meshes), ", ",
                            describe_ranks(of_other_run_),
                            of_other_run_.size() == 1 ? " says " : " say ", other_meshes_,
                            "; files of two runs lie in one folder");
  }
  if (!of_other_id_.empty()) {
    const Numbers others = without(ranks_, of_other_id_);
    throw base::input_error(base::render(
        {"{ranks} {count?is|are} of the run {id}, {others} of another one, {other}; files of two "
         "runs lie in one folder, so move those of the other run away, or record again",
         {{"ranks", describe_ranks(others)},
          {"count", others.size()},
          {"id", base::excerpt(run_id_)},
          {"others", describe_ranks(of_other_id_)},
          {"other", base::excerpt(other_id_)}}}));
  }
  const Numbers all = ranks_of(whole_.meshes);
  const Numbers strangers = without(ranks_, all);
  if (!strangers.empty()) {
    throw base::input_error(describe_ranks(strangers), strangers.size() == 1 ? " lies" : " lie",
                            " on no mesh of the run (", describe_meshes(whole_.meshes),
                            "); is a file of another run in the folder? Move it away");
  }
}

ShapesByRank ManifestMerge::shapes_of(const Tensor& tensor) {
  ShapesByRank shapes = tensor.other_shapes;
  for (const std::uint64_t rank : tensor.ranks) shapes.emplace(rank, tensor.entry.shape);
  return shapes;
}

void ManifestMerge::merge_uneven_shards() {
  // What rows have needs the index as its ranks said it.
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].entry.key.kind == trace::Kind::kIndex) {
      indices.push_back(i);
    } else {
      merge_uneven_shards_of(i);
    }
  }
  for (const std::size_t i : indices) merge_uneven_shards_of(i);
}

void ManifestMerge::merge_uneven_shards_of(std::size_t i) {
  Tensor& tensor = tensors_[i];
  const trace::Rows* rows = rows_placement(tensor.entry);
  const bool is_index = tensor.entry.key.kind == trace::Kind::kIndex;
  if (tensor.other_shapes.empty() && rows == nullptr && !is_index) return;
  const trace::Mesh& mesh = whole_.meshes.at(tensor.entry.mesh);
  ShapesByRank shapes = shapes_of(tensor);
  if (rows != nullptr && rows->labels) {
    const auto index = known_tensors_.find(trace::index_key(tensor.entry.key, rows->index));
    if (index != known_tensors_.end()) {
      const Tensor& listed = tensors_[index->second];
      take_extent_of_index(tensor.entry, *rows, mesh, listed.entry, shapes_of(listed), shapes);
    }
  }
  if (set_whole_extents(tensor.entry, mesh, shapes) || contradiction_) return;
  if (tensor.other_shapes.empty()) return;
  const tensor::Shape& other = tensor.other_shapes.begin()->second;
  EntryDifference difference{"shape", tensor::to_string(tensor.entry.shape),
                             tensor::to_string(other)};
  contradiction_ = Contradiction{i, std::move(difference), {}};
  for (const auto& [rank, shape] : tensor.other_shapes) contradiction_->others.push_back(rank);
}

void ManifestMerge::require_no_contradiction() const {
  if (!contradiction_) return;
  const Tensor& tensor = tensors_[contradiction_->tensor];
  const EntryDifference& difference = contradiction_->difference;
  const Numbers same = without(tensor.ranks, contradiction_->others);
  throw base::input_error(
      trace::to_string(tensor.entry.key), ": ", describe_ranks(same),
      same.size() == 1 ? " says " : " say ", difference.member, " is ", difference.first, ", ",
      describe_ranks(contradiction_->others),
      contradiction_->others.size() == 1 ? " says " : " say ", difference.second,
      "; every rank must describe a tensor alike, as it lies on the whole mesh");
}

void ManifestMerge::merge_tensors() {
  std::map<std::string, PresentRanks> present;
  for (const auto& [name, mesh] : whole_.meshes) present.emplace(name, PresentRanks(mesh, ranks_));
  whole_.tensors.reserve(tensors_.size());
  for (Tensor& tensor : tensors_) {
    trace::TensorEntry& entry = tensor.entry;
    // Set even where the coarsest type is the stored one: the first rank may name a finer type.
    if (entry.computed_in || tensor.computed_in != entry.dtype) {
      entry.computed_in = tensor.computed_in;
    }
    set_ranks(entry, tensor.ranks, present.at(entry.mesh), run_);
    whole_.tensors.push_back(std::move(entry));
  }
  std::sort(whole_.tensors.begin(), whole_.tensors.end(), stands_before);
}

MergedManifest ManifestMerge::finish() {
  if (ranks_.empty()) throw base::input_error("no rank has a part of the manifest");
  require_one_run();
  merge_uneven_shards();
  require_no_contradiction();
  merge_tensors();
  whole_.run = run_.facts();
  whole_.optimizer = optimizer_.groups();
  MergedManifest merged;
  merged.lost_ranks = without(ranks_of(whole_), ranks_);
  if (!merged.lost_ranks.empty()) {
    merged.findings.push_back(
        base::concat("no part of the manifest from ", describe_ranks(merged.lost_ranks),
                     ": tensors and copies that nobody else held are not listed"));
  }
  merged.manifest = std::move(whole_);
  return merged;
}

}  // namespace ttrace::layout
