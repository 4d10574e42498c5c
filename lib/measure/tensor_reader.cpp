#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "measure/logical_tensor.h"

namespace ttrace::measure {
namespace {

// A reader of a tensor that is made of others, its sources.
class ComposedReader : public TensorReader {
 public:
  void read(const tensor::Box& box, std::span<double> out) override { read_any(box, out); }
  void read_integers(const tensor::Box& box, std::span<std::int64_t> out) override {
    read_any(box, out);
  }
  void for_each_check(const VisitCheck& visit) const override {
    for (std::size_t s = 0; s < sources_.size(); ++s) {
      sources_[s]->for_each_check([&](CheckPath path, const ReplicaCheck& check) {
        path.insert(path.begin(), s);
        visit(path, check);
      });
    }
  }
  std::uint64_t bytes_read() const override {
    std::uint64_t bytes = 0;
    for (const auto& source : sources_) bytes += source->bytes_read();
    return bytes;
  }

 protected:
  virtual void read_any(const tensor::Box& box, std::span<double> out) = 0;
  virtual void read_any(const tensor::Box& box, std::span<std::int64_t> out) = 0;

  static void read_source(TensorReader& source, const tensor::Box& box, std::span<double> out) {
    source.read(box, out);
  }
  static void read_source(TensorReader& source, const tensor::Box& box,
                          std::span<std::int64_t> out) {
    source.read_integers(box, out);
  }

  std::vector<std::unique_ptr<TensorReader>> sources_;
};

class MosaicReader final : public ComposedReader {
 public:
  MosaicReader(const trace::Source& source, const layout::View& view, const layout::Mosaic& mosaic,
               Replicas replicas)
      : mosaic_(mosaic), whole_(tensor::whole(view.shape)) {
    std::map<const layout::View*, std::size_t> known;  // tiles of one source share its reader
    for (const layout::Mosaic::Tile& tile : mosaic.tiles) {
      const auto [at, fresh] = known.emplace(tile.source.get(), sources_.size());
      if (fresh) {
        sources_.push_back(make_reader(source, *tile.source, replicas));
        parts_.push_back(layout::describe_part(tile.source->key, view.key));
      }
      source_of_.push_back(at->second);
    }
  }

  std::vector<RankBoxes> rank_boxes() const override {
    std::vector<RankBoxes> owners;
    for (std::size_t s = 0; s < sources_.size(); ++s) {
      for (const RankBoxes& owner : sources_[s]->rank_boxes()) {
        RankBoxes seen{{}, owner.ranks, owner.part.empty() ? parts_[s] : owner.part};
        for (const tensor::Box& box : owner.boxes) add_targets(s, box, seen.boxes);
        if (!seen.boxes.empty()) owners.push_back(std::move(seen));
      }
    }
    RankBoxes padding{outside_tiles(), {}, ""};
    if (!padding.boxes.empty()) owners.push_back(std::move(padding));
    return owners;
  }

  std::optional<ElementPlace> locate(const tensor::Shape& point) const override {
    const tensor::Box element{point, tensor::Shape(point.size(), 1)};
    for (std::size_t t = 0; t < mosaic_.tiles.size(); ++t) {
      if (!tensor::intersect(mosaic_.tiles[t].target, element)) continue;
      return sources_[source_of_[t]]->locate(in_source(t, element).origin);
    }
    return std::nullopt;
  }

 protected:
  void read_any(const tensor::Box& box, std::span<double> out) override { tiles(box, out); }
  void read_any(const tensor::Box& box, std::span<std::int64_t> out) override { tiles(box, out); }

 private:
  tensor::Box in_source(std::size_t tile, const tensor::Box& target) const {
    const layout::Mosaic::Tile& t = mosaic_.tiles[tile];
    return tensor::shifted(tensor::relative_to(target, t.target.origin), t.origin);
  }

  // Adds the boxes of the new tensor that a box of source `s` becomes.
  void add_targets(std::size_t s, const tensor::Box& box, std::vector<tensor::Box>& targets) const {
    for (std::size_t t = 0; t < mosaic_.tiles.size(); ++t) {
      if (source_of_[t] != s) continue;
      const layout::Mosaic::Tile& tile = mosaic_.tiles[t];
      const auto common = tensor::intersect(box, {tile.origin, tile.target.extent});
      if (!common) continue;
      targets.push_back(
          tensor::shifted(tensor::relative_to(*common, tile.origin), tile.target.origin));
    }
  }

  // Returns the boxes that no tile covers.
  std::vector<tensor::Box> outside_tiles() const {
    std::vector<tensor::Box> left;
    if (!tensor::empty(whole_)) left.push_back(whole_);
    for (const layout::Mosaic::Tile& tile : mosaic_.tiles) {
      std::vector<tensor::Box> next;
      for (const tensor::Box& box : left) subtract(box, tile.target, next);
      left = std::move(next);
    }
    return left;
  }

  static void subtract(tensor::Box box, const tensor::Box& taken, std::vector<tensor::Box>& left) {
    const auto common = tensor::intersect(box, taken);
    if (!common) return left.push_back(std::move(box));
    for (std::size_t d = 0; d < box.extent.size(); ++d) {
      const std::uint64_t stop = box.origin[d] + box.extent[d];
      const std::uint64_t common_stop = common->origin[d] + common->extent[d];
      tensor::Box side = box;
      side.extent[d] = common->origin[d] - box.origin[d];
      if (side.extent[d] > 0) left.push_back(side);
      side.origin[d] = common_stop;
      side.extent[d] = stop - common_stop;
      if (side.extent[d] > 0) left.push_back(side);
      box.origin[d] = common->origin[d];
      box.extent[d] = common->extent[d];
    }
  }

  template <typename Value>
  void tiles(const tensor::Box& box, std::span<Value> out) {
    std::fill(out.begin(), out.end(), Value{0});
    std::vector<Value> values;
    for (std::size_t t = 0; t < mosaic_.tiles.size(); ++t) {
      const auto common = tensor::intersect(mosaic_.tiles[t].target, box);
      if (!common) continue;
      TensorReader& source = *sources_[source_of_[t]];
      if (*common == box) return read_source(source, in_source(t, box), out);
      values.resize(tensor::volume(*common));
      read_source(source, in_source(t, *common), std::span<Value>(values));
      tensor::copy_common(*common, std::as_bytes(std::span(values)), box,
                          std::as_writable_bytes(out), sizeof(Value));
    }
  }

  const layout::Mosaic& mosaic_;
  std::vector<std::string> parts_;  // names of the sources within the whole
  tensor::Box whole_;
  std::vector<std::size_t> source_of_;  // for every tile
};

class SumReader final : public ComposedReader {
 public:
  SumReader(const trace::Source& source, const layout::View& view, const layout::Sum& sum,
            Replicas replicas)
      : whole_(tensor::whole(view.shape)), factor_(sum.factor) {
    for (const layout::ViewPtr& term : sum.terms) {
      sources_.push_back(make_reader(source, *term, replicas));
    }
  }

  // Returns the terms' boxes where all terms are sharded alike; else the tensor as one box.
  std::vector<RankBoxes> rank_boxes() const override {
    std::vector<RankBoxes> owners = sources_[0]->rank_boxes();
    bool alike = true;
    for (std::size_t s = 1; s < sources_.size(); ++s) {
      const std::vector<RankBoxes> others = sources_[s]->rank_boxes();
      alike = alike && others.size() == owners.size();
      for (std::size_t i = 0; i < others.size() && alike; ++i) {
        alike = owners[i].boxes == others[i].boxes;
        owners[i].ranks.insert(owners[i].ranks.end(), others[i].ranks.begin(),
                               others[i].ranks.end());
      }
    }
    if (!alike) owners = one_owner();
    for (RankBoxes& owner : owners) {
      std::sort(owner.ranks.begin(), owner.ranks.end());
      owner.ranks.erase(std::unique(owner.ranks.begin(), owner.ranks.end()), owner.ranks.end());
    }
    return owners;
  }

  // A sum does not show which of several terms is wrong.
  std::optional<ElementPlace> locate(const tensor::Shape& point) const override {
    return sources_.size() == 1 ? sources_[0]->locate(point) : std::nullopt;
  }

 protected:
  void read_any(const tensor::Box& box, std::span<double> out) override {
    add(box, out, term_);
    if (factor_ == 1) return;
    for (double& value : out) value *= factor_;
  }
  void read_any(const tensor::Box& box, std::span<std::int64_t> out) override {
    add(box, out, integer_term_);
  }

 private:
  std::vector<RankBoxes> one_owner() const {
    RankBoxes owner;
    if (!tensor::empty(whole_)) owner.boxes.push_back(whole_);
    for (const auto& source : sources_) {
      for (const RankBoxes& other : source->rank_boxes()) {
        owner.ranks.insert(owner.ranks.end(), other.ranks.begin(), other.ranks.end());
      }
    }
    return {owner};
  }

  template <typename Value>
  void add(const tensor::Box& box, std::span<Value> out, std::vector<Value>& term) {
    read_source(*sources_[0], box, out);
    term.resize(out.size());
    for (std::size_t s = 1; s < sources_.size(); ++s) {
      read_source(*sources_[s], box, std::span<Value>(term));
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = plus(out[i], term[i]);
    }
  }

  static double plus(double a, double b) { return a + b; }
  // A sum that overflows wraps, as it does in the program that made it.
  static std::int64_t plus(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }

  tensor::Box whole_;
  double factor_;
  std::vector<double> term_;
  std::vector<std::int64_t> integer_term_;
};

class TransposedReader final : public ComposedReader {
 public:
  TransposedReader(const trace::Source& source, const layout::Transposed& transposed,
                   Replicas replicas)
      : axes_(transposed.axes) {
    sources_.push_back(make_reader(source, *transposed.source, replicas));
  }

  std::vector<RankBoxes> rank_boxes() const override {
    std::vector<RankBoxes> owners = sources_[0]->rank_boxes();
    for (RankBoxes& owner : owners) {
      for (tensor::Box& box : owner.boxes) {
        const tensor::Box source = box;
        for (std::size_t i = 0; i < axes_.size(); ++i) {
          box.origin[i] = source.origin[axes_[i]];
          box.extent[i] = source.extent[axes_[i]];
        }
      }
    }
    return owners;
  }

  std::optional<ElementPlace> locate(const tensor::Shape& point) const override {
    tensor::Shape source = point;
    for (std::size_t i = 0; i < axes_.size(); ++i) source[axes_[i]] = point[i];
    return sources_[0]->locate(source);
  }

 protected:
  void read_any(const tensor::Box& box, std::span<double> out) override { permute(box, out); }
  void read_any(const tensor::Box& box, std::span<std::int64_t> out) override { permute(box, out); }

 private:
  template <typename Value>
  void permute(const tensor::Box& box, std::span<Value> out) {
    tensor::Box source = box;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      source.origin[axes_[i]] = box.origin[i];
      source.extent[axes_[i]] = box.extent[i];
    }
    std::vector<Value> values(out.size());
    read_source(*sources_[0], source, std::span<Value>(values));
    std::vector<std::uint64_t> stride(axes_.size(), 1);  // of the source's dimensions
    for (std::size_t d = axes_.size(); d-- > 1;) stride[d - 1] = stride[d] * source.extent[d];
    std::vector<std::uint64_t> at(axes_.size(), 0);
    std::uint64_t from = 0;
    for (Value& value : out) {
      value = values[from];
      for (std::size_t i = axes_.size(); i-- > 0;) {
        from += stride[axes_[i]];
        if (++at[i] < box.extent[i]) break;
        from -= stride[axes_[i]] * box.extent[i];
        at[i] = 0;
      }
    }
  }

  const std::vector<std::size_t>& axes_;
};

// The views that a mosaic is made of, each once, in the order of their first tiles.
std::vector<const layout::View*> sources_of(const layout::Mosaic& mosaic) {
  std::vector<const layout::View*> sources;
  std::set<const layout::View*> seen;
  for (const layout::Mosaic::Tile& tile : mosaic.tiles) {
    if (seen.insert(tile.source.get()).second) sources.push_back(tile.source.get());
  }
  return sources;
}

std::vector<const layout::View*> sources_of(const layout::View& view) {
  if (const auto* mosaic = std::get_if<layout::Mosaic>(&view.how)) return sources_of(*mosaic);
  std::vector<const layout::View*> sources;
  if (const auto* sum = std::get_if<layout::Sum>(&view.how)) {
    for (const layout::ViewPtr& term : sum->terms) sources.push_back(term.get());
  } else if (const auto* transposed = std::get_if<layout::Transposed>(&view.how)) {
    sources.push_back(transposed->source.get());
  }
  return sources;
}

}  // namespace

const trace::TensorEntry* stored_at(const layout::View& view, const CheckPath& path) {
  const layout::View* at = &view;
  for (const std::size_t step : path) {
    if (const auto* stored = std::get_if<layout::Stored>(&at->how)) return stored->entry.get();
    const std::vector<const layout::View*> sources = sources_of(*at);
    if (step >= sources.size()) return nullptr;
    at = sources[step];
  }
  const auto* stored = std::get_if<layout::Stored>(&at->how);
  return stored == nullptr ? nullptr : stored->entry.get();
}

std::unique_ptr<TensorReader> make_reader(const trace::Source& source, const layout::View& view,
                                          Replicas replicas) {
  if (const auto* stored = std::get_if<layout::Stored>(&view.how)) {
    return std::make_unique<LogicalTensor>(source, *stored->entry, replicas);
  }
  if (const auto* mosaic = std::get_if<layout::Mosaic>(&view.how)) {
    return std::make_unique<MosaicReader>(source, view, *mosaic, replicas);
  }
  if (const auto* sum = std::get_if<layout::Sum>(&view.how)) {
    return std::make_unique<SumReader>(source, view, *sum, replicas);
  }
  return std::make_unique<TransposedReader>(source, std::get<layout::Transposed>(view.how),
                                            replicas);
}

std::unique_ptr<TensorReader> TensorRef::open(Replicas replicas) const {
  return opener ? opener(replicas) : make_reader(*source, *view, replicas);
}

}  // namespace ttrace::measure
