#include "measure/in_memory_tensor.h"

#include "base/error.h"
#include "measure/sections.h"

namespace ttrace::measure {

namespace {

struct Kept {
  tensor::Box whole;
  bool exact = false;
  std::vector<double> floats;
  std::vector<std::int64_t> integers;
  std::unique_ptr<TensorReader> original;  // for everything but values
};

class KeptReader : public TensorReader {
 public:
  explicit KeptReader(std::shared_ptr<const Kept> kept) : kept_(std::move(kept)) {}

  void read(const tensor::Box& box, std::span<double> out) override {
    if (kept_->exact) throw base::internal_error("the tensor in memory has integers, not numbers");
    copy<double>(kept_->floats, box, out);
  }
  void read_integers(const tensor::Box& box, std::span<std::int64_t> out) override {
    if (!kept_->exact) throw base::internal_error("the tensor in memory has numbers, not integers");
    copy<std::int64_t>(kept_->integers, box, out);
  }
  std::vector<RankBoxes> rank_boxes() const override { return kept_->original->rank_boxes(); }
  std::optional<Place> locate(const tensor::Shape& point) const override {
    return kept_->original->locate(point);
  }
  void for_each_check(const VisitCheck& visit) const override {
    kept_->original->for_each_check(visit);
  }
  std::uint64_t bytes_read() const override { return 0; }

 private:
  template <typename Value>
  void copy(std::span<const Value> from, const tensor::Box& box, std::span<Value> out) const {
    tensor::copy_common(kept_->whole, std::as_bytes(from), box, std::as_writable_bytes(out),
                        sizeof(Value));
  }

  std::shared_ptr<const Kept> kept_;
};

template <typename Value, typename Read>
void fill(Kept& kept, std::vector<Value>& values, Read read) {
  values.resize(tensor::volume(kept.whole));
  std::vector<Value> part_values;
  // Shard by shard, as `measure` reads: every shard is opened once.
  for (const RankBoxes& owner : kept.original->rank_boxes()) {
    for (const tensor::Box& box : owner.boxes) {
      tensor::for_each_sub_box(box, kReadElements, [&](const tensor::Box& part) {
        part_values.resize(tensor::volume(part));
        read(part, std::span<Value>(part_values));
        tensor::copy_common(part, std::as_bytes(std::span(part_values)), kept.whole,
                            std::as_writable_bytes(std::span(values)), sizeof(Value));
      });
    }
  }
}

}  // namespace

TensorRef keep_in_memory(const TensorRef& tensor, Replicas replicas, bool exact) {
  const auto kept = std::make_shared<Kept>();
  kept->whole = tensor::whole(tensor.view->shape);
  kept->exact = exact;
  kept->original = tensor.open(replicas);
  TensorReader& original = *kept->original;
  if (exact) {
    fill(*kept, kept->integers, [&](const tensor::Box& box, std::span<std::int64_t> out) {
      original.read_integers(box, out);
    });
  } else {
    fill(*kept, kept->floats,
         [&](const tensor::Box& box, std::span<double> out) { original.read(box, out); });
  }
  TensorRef in_memory = tensor;
  in_memory.opener = [kept](Replicas) { return std::make_unique<KeptReader>(kept); };
  return in_memory;
}

}  // namespace ttrace::measure
