#include "measure/fault.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "measure/sections.h"
#include "tensor/codec.h"

namespace ttrace::measure {
namespace {

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }
bool same(std::int64_t a, std::int64_t b) { return a == b; }

// Calls visit(run) for every row of consecutive elements that `part` has in common with `box`.
template <typename Value, typename Visit>
void for_each_run(const tensor::Box& part, const tensor::Box& box, std::span<Value> values,
                  Visit visit) {
  const auto common = tensor::intersect(part, box);
  if (!common) return;
  const std::uint64_t row = common->extent.empty() ? 1 : common->extent.back();
  tensor::for_each_sub_box(*common, row, [&](const tensor::Box& run) {
    const tensor::Box here = tensor::relative_to(run, box.origin);
    const std::size_t at = tensor::position(box.extent, here.origin);
    visit(values.subspan(at, tensor::volume(run)));
  });
}

template <typename Value>
void set_to_zero(const Fault& fault, const tensor::Box& box, std::span<Value> values) {
  for (const tensor::Box& part : fault.zeroed) {
    for_each_run(part, box, values,
                 [](std::span<Value> run) { std::fill(run.begin(), run.end(), Value{0}); });
  }
}

void scale_run(const Fault& fault, std::span<double> run) {
  for (double& value : run) {
    value *= fault.factor;
    if (fault.stored_as)
      value = tensor::round_to(*fault.stored_as, value / fault.scale) * fault.scale;
  }
}

class FaultyReader : public TensorReader {
 public:
  FaultyReader(std::unique_ptr<TensorReader> original, std::shared_ptr<const Fault> fault,
               std::uint64_t* changed)
      : original_(std::move(original)), fault_(std::move(fault)), changed_(changed) {
    // A reader of its own: elements that `original_` reads twice would count twice in replica
    // checks.
    if (fault_->source) source_ = fault_->source->open(Replicas::kFirstOnly);
  }

  void read(const tensor::Box& box, std::span<double> out) override {
    original_->read(box, out);
    const std::vector<double> healthy(out.begin(), out.end());
    move<double>(box, out, [this](const tensor::Box& from, std::span<double> values) {
      source_->read(from, values);
    });
    apply_in_place(*fault_, box, out);
    count<double>(healthy, out);
  }

  void read_integers(const tensor::Box& box, std::span<std::int64_t> out) override {
    original_->read_integers(box, out);
    const std::vector<std::int64_t> healthy(out.begin(), out.end());
    move<std::int64_t>(box, out, [this](const tensor::Box& from, std::span<std::int64_t> values) {
      source_->read_integers(from, values);
    });
    set_to_zero(*fault_, box, out);
    count<std::int64_t>(healthy, out);
  }

  std::vector<RankBoxes> rank_boxes() const override { return original_->rank_boxes(); }
  std::optional<ElementPlace> locate(const tensor::Shape& point) const override {
    return original_->locate(point);
  }
  void for_each_check(const VisitCheck& visit) const override { original_->for_each_check(visit); }
  std::uint64_t bytes_read() const override {
    return original_->bytes_read() + (source_ == nullptr ? 0 : source_->bytes_read());
  }

 private:
  template <typename Value, typename Read>
  void move(const tensor::Box& box, std::span<Value> out, Read read) {
    std::vector<Value> values;
    for (const Fault::Move& move : fault_->moves) {
      const auto common = tensor::intersect(move.to, box);
      if (!common) continue;
      const tensor::Box from =
          tensor::shifted(tensor::relative_to(*common, move.to.origin), move.from);
      values.resize(tensor::volume(*common));
      read(from, std::span<Value>(values));
      tensor::copy_common(*common, std::as_bytes(std::span(values)), box,
                          std::as_writable_bytes(out), sizeof(Value));
    }
  }

  template <typename Value>
  void count(std::span<const Value> healthy, std::span<const Value> now) {
    for (std::size_t i = 0; i < now.size(); ++i) *changed_ += same(healthy[i], now[i]) ? 0 : 1;
  }

  std::unique_ptr<TensorReader> original_;
  std::shared_ptr<const Fault> fault_;
  std::unique_ptr<TensorReader> source_;
  std::uint64_t* changed_;
};

}  // namespace

void apply_in_place(const Fault& fault, const tensor::Box& box, std::span<double> values) {
  set_to_zero(fault, box, values);
  if (fault.factor != 1) {
    if (fault.scaled) {
      for_each_run(*fault.scaled, box, values,
                   [&fault](std::span<double> run) { scale_run(fault, run); });
    } else {
      scale_run(fault, values);
    }
  }
  if (fault.rounded_to) {
    for (double& value : values) value = tensor::round_to(*fault.rounded_to, value);
  }
}

TensorRef with_fault(const TensorRef& tensor, Fault fault, std::uint64_t& changed) {
  const auto shared = std::make_shared<const Fault>(std::move(fault));
  TensorRef faulty = tensor;
  faulty.opener = [tensor, shared, at = &changed](Replicas replicas) {
    return std::make_unique<FaultyReader>(tensor.open(replicas), shared, at);
  };
  return faulty;
}

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
  std::optional<ElementPlace> locate(const tensor::Shape& point) const override {
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
  // Reads shard by shard, so that every shard is opened once.
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
