#include "synth/make_trace.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/parallel.h"
#include "layout/mesh.h"
#include "synth/dataset.h"
#include "synth/fault.h"

namespace ttrace::synth {
namespace {

constexpr std::uint64_t kElementsPerWrite = std::uint64_t{1} << 18;
constexpr std::size_t kMostQueuedWrites = 4096;  // then they are written

// The coordinates of every rank on every mesh.
class Coordinates {
 public:
  explicit Coordinates(const std::map<std::string, trace::Mesh>& meshes) {
    for (const auto& [name, mesh] : meshes) {
      auto& places = places_[name];
      const std::uint64_t size = layout::mesh_size(mesh);
      for (std::uint64_t i = 0; i < size; ++i) places.emplace(layout::rank_at(mesh, i), i);
    }
  }

  std::optional<std::vector<std::uint64_t>> of(const std::string& name, const trace::Mesh& mesh,
                                               std::uint64_t rank) const {
    const auto& places = places_.at(name);
    const auto found = places.find(rank);
    if (found == places.end()) return std::nullopt;
    return layout::coordinates_at(mesh, found->second);
  }

 private:
  std::map<std::string, std::map<std::uint64_t, std::uint64_t>> places_;
};

struct Write {
  std::shared_ptr<const RankDataset> dataset;
  std::string path;
  tensor::Box box;
};

// The boxes of one file that are still to be computed and written, by several threads at once.
class WriteQueue {
 public:
  WriteQueue(trace::Sink& sink, unsigned threads) : sink_(sink), threads_(threads) {}

  void add(Write write) {
    const std::uint64_t elements = tensor::volume(write.box);
    if (starts_.empty() || elements_ + elements > kElementsPerWrite) {
      if (starts_.size() >= kMostQueuedWrites) flush();
      starts_.push_back(writes_.size());
      elements_ = 0;
    }
    elements_ += elements;
    writes_.push_back(std::move(write));
    if (writes_.size() >= kMostQueuedWrites) flush();
  }

  void flush() {
    base::parallel_for(starts_.size(), threads_, [this](std::size_t i) {
      const std::size_t stop = i + 1 < starts_.size() ? starts_[i + 1] : writes_.size();
      for (std::size_t p = starts_[i]; p < stop; ++p) write_one(writes_[p]);
    });
    writes_.clear();
    starts_.clear();
  }

 private:
  void write_one(const Write& write) {
    thread_local std::vector<std::byte> bytes;
    bytes.resize(tensor::volume(write.box) * tensor::element_bytes(write.dataset->dtype()));
    write.dataset->make(write.box, bytes);
    sink_.write(write.path, write.box, bytes);
  }

  trace::Sink& sink_;
  unsigned threads_;
  std::vector<Write> writes_;
  std::vector<std::size_t> starts_;  // first write of each batch, which one thread takes at a time
  std::uint64_t elements_ = 0;       // of the last batch
};

// The tensors of a group that one rank holds. All have the same local layout.
struct Share {
  const Group* group = nullptr;
  std::uint64_t order = 0;  // execution order of the first tensor of the group
  std::uint64_t first = 0;
  std::uint64_t stop = 0;
  std::vector<std::uint64_t> coordinates;
  layout::LocalLayout held;
};

class Maker {
 public:
  explicit Maker(const Request& request)
      : request_(request), recipe_(request.recipe), coordinates_(recipe_.meshes) {
    for (const Group& group : recipe_.groups) {
      // Computed once per group, and only if some tensor has the fault.
      const bool any =
          std::any_of(request.faults.begin(), request.faults.end(), [](const PlantedFault& fault) {
            return fault.kind == PlantedFault::Kind::kShardsSwapped;
          });
      swaps_.push_back(any ? shards_to_swap(recipe_, group) : std::nullopt);
    }
  }

  void write_rank(std::uint64_t rank, trace::Sink& sink, Made& made) const {
    trace::Manifest part;
    part.run = request_.run;
    part.meshes = recipe_.meshes;
    part.optimizer = optimizer_of(recipe_);
    WriteQueue queue(sink, request_.threads);
    std::uint64_t order = 0;
    for (std::size_t g = 0; g < recipe_.groups.size(); ++g) {
      const Group& group = recipe_.groups[g];
      if (auto share = share_of(group, rank)) {
        share->order = order;
        write_share(*share, swaps_[g], sink, queue, part, made);
        queue.flush();  // it points into the share
      }
      order += group.count;
    }
    sink.finish(part);
  }

 private:
  std::optional<Share> share_of(const Group& group, std::uint64_t rank) const {
    const trace::Mesh& mesh = recipe_.meshes.at(group.entry.mesh);
    auto at = coordinates_.of(group.entry.mesh, mesh, rank);
    if (!at) return std::nullopt;
    Share share{&group, 0, 0, group.count, *std::move(at), {}};
    for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
      if (mesh.axes[a].name != group.stages) continue;
      share.first = group.first_at(share.coordinates[a]);
      share.stop = group.first_at(share.coordinates[a] + 1);
    }
    if (share.first == share.stop) return std::nullopt;
    auto held = local_layout_of(recipe_, group, share.coordinates);
    if (!held) return std::nullopt;
    share.held = *std::move(held);
    return share;
  }

  void write_share(const Share& share,
                   const std::optional<std::pair<layout::LocalLayout, layout::LocalLayout>>& swap,
                   trace::Sink& sink, WriteQueue& queue, trace::Manifest& part, Made& made) const {
    const trace::Storage storage =
        storage_for(share.group->storage, share.held.dataset_shape(), share.group->entry.dtype);
    for (std::uint64_t i = share.first; i < share.stop; ++i) {
      trace::TensorEntry entry = share.group->entry_of(i);
      entry.order = share.order + i;
      const TensorFaults faults = faults_of(entry, request_.faults);
      if (faults.missing) continue;
      const layout::LocalLayout* held = &share.held;
      if (faults.swapped && swap) {
        if (*held == swap->first) {
          held = &swap->second;
        } else if (*held == swap->second) {
          held = &swap->first;
        }
      }
      write_tensor(share, entry, faults, *held, storage, sink, queue, made);
      part.tensors.push_back(std::move(entry));
    }
  }

  void write_tensor(const Share& share, const trace::TensorEntry& entry, const TensorFaults& faults,
                    const layout::LocalLayout& held, const trace::Storage& storage,
                    trace::Sink& sink, WriteQueue& queue, Made& made) const {
    const std::string path = dataset_path(entry.key);
    const tensor::Shape shape = held.dataset_shape();
    sink.create(path, entry.dtype, shape, storage);
    made.bytes += *tensor::byte_count(shape, entry.dtype);
    if (storage.sparse) return;
    const trace::Mesh& mesh = recipe_.meshes.at(entry.mesh);
    const auto dropped = faults.dropped ? dropped_term(mesh, entry) : std::nullopt;
    const auto dataset = std::make_shared<const RankDataset>(
        held, entry, Values(recipe_, *share.group, entry, request_.noise, faults),
        Terms(recipe_.seed, entry, mesh, share.coordinates, path),
        dropped && share.coordinates[dropped->axis] == dropped->coordinate);
    for_each_write_box(shape, storage, kElementsPerWrite, [&](const tensor::Box& box) {
      queue.add({dataset, path, box});
    });
  }

  const Request& request_;
  const Recipe& recipe_;
  Coordinates coordinates_;
  std::vector<std::optional<std::pair<layout::LocalLayout, layout::LocalLayout>>> swaps_;
};

}  // namespace

trace::Manifest manifest_of(const Request& request) {
  trace::Manifest manifest = manifest_of(request.recipe);
  manifest.run = request.run;
  std::erase_if(manifest.tensors, [&request](const trace::TensorEntry& entry) {
    return faults_of(entry, request.faults).missing;
  });
  return manifest;
}

Made make_trace(const Request& request,
                const std::function<std::unique_ptr<trace::Sink>(std::uint64_t rank)>& open) {
  Made made;
  for (const Group& group : request.recipe.groups) {
    for (std::uint64_t i = 0; i < group.count; ++i) {
      made.tensors += faults_of(group.entry_of(i), request.faults).missing ? 0 : 1;
    }
  }
  const Maker maker(request);
  for (const std::uint64_t rank : layout::ranks_of(request.recipe.meshes)) {
    const bool missing = std::any_of(
        request.faults.begin(), request.faults.end(), [rank](const PlantedFault& fault) {
          return fault.kind == PlantedFault::Kind::kRankMissing &&
                 static_cast<std::uint64_t>(fault.number.value_or(0)) == rank;
        });
    if (missing) continue;
    const std::unique_ptr<trace::Sink> sink = open(rank);
    maker.write_rank(rank, *sink, made);
    ++made.ranks;
  }
  return made;
}

}  // namespace ttrace::synth
