#include "measure/in_memory_tensor.h"

#include "base/error.h"

namespace ttrace::measure {

namespace {

struct Held {
  tensor::Box whole;
  bool exact = false;
  std::vector<double> floats;
  std::vector<std::int64_t> integers;
  std::unique_ptr<TensorReader> original;  // for everything but values
};

class HeldReader : public TensorReader {
 public:
  explicit HeldReader(std::shared_ptr<const Held> held) : held_(std::move(held)) {}

  void read(const tensor::Box& box, std::span<double> out) override {
    if (held_->exact) throw base::internal_error("integers are held, numbers were asked for");
    copy<double>(held_->floats, box, out);
  }
  void read_integers(const tensor::Box& box, std::span<std::int64_t> out) override {
    if (!held_->exact) throw base::internal_error("numbers are held, integers were asked for");
    copy<std::int64_t>(held_->integers, box, out);
  }
  std::vector<Region> regions() const override { return held_->original->regions(); }
  std::optional<Place> locate(const tensor::Shape& point) const override {
    return held_->original->locate(point);
  }
  void for_each_check(const VisitCheck& visit) const override {
    held_->original->for_each_check(visit);
  }
  std::uint64_t bytes_read() const override { return 0; }

 private:
  template <typename Value>
  void copy(std::span<const Value> from, const tensor::Box& box, std::span<Value> out) const {
    tensor::copy_common(held_->whole, std::as_bytes(from), box, std::as_writable_bytes(out),
                        sizeof(Value));
  }

  std::shared_ptr<const Held> held_;
};

template <typename Value, typename Read>
void fill(Held& held, std::vector<Value>& values, Read read) {
  values.resize(tensor::volume(held.whole));
  std::vector<Value> slab_values;
  // By regions, as `measure` does: then every shard is opened once.
  for (const Region& region : held.original->regions()) {
    for (const tensor::Box& box : region.boxes) {
      tensor::for_each_sub_box(box, kBandElements, [&](const tensor::Box& slab) {
        slab_values.resize(tensor::volume(slab));
        read(slab, std::span<Value>(slab_values));
        tensor::copy_common(slab, std::as_bytes(std::span(slab_values)), held.whole,
                            std::as_writable_bytes(std::span(values)), sizeof(Value));
      });
    }
  }
}

}  // namespace

TensorRef hold(const TensorRef& tensor, Replicas replicas, bool exact) {
  const auto held = std::make_shared<Held>();
  held->whole = tensor::whole(tensor.view->shape);
  held->exact = exact;
  held->original = tensor.open(replicas);
  TensorReader& original = *held->original;
  if (exact) {
    fill(*held, held->integers, [&](const tensor::Box& slab, std::span<std::int64_t> out) {
      original.read_integers(slab, out);
    });
  } else {
    fill(*held, held->floats,
         [&](const tensor::Box& slab, std::span<double> out) { original.read(slab, out); });
  }
  TensorRef kept = tensor;
  kept.opener = [held](Replicas) { return std::make_unique<HeldReader>(held); };
  return kept;
}

}  // namespace ttrace::measure
