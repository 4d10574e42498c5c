// The plan of a stored tensor, ready for reading boxes of it. Tensors of equal layout share one: a
// trace has few layouts, and making a plan costs more than reading a small tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "layout/plan.h"
#include "trace/source.h"

namespace ttrace::measure {

// Finds the parts of a plan that share elements with a box, without visiting all parts.
class PartIndex {
 public:
  // `plan` must outlive the index.
  explicit PartIndex(const layout::Plan& plan);

  // Visits every part that shares elements with `box`, with the index of its block; stops when
  // `visit` returns false.
  void for_each(
      const tensor::Box& box,
      const std::function<bool(std::size_t block, const layout::PlacedBox& part)>& visit) const;

 private:
  struct Located {
    std::uint64_t start = 0;
    std::size_t block = 0;
    const layout::PlacedBox* part = nullptr;
  };

  std::size_t dim_ = 0;  // the dimension along which parts start at the most places
  std::uint64_t longest_ = 0;
  std::vector<Located> parts_;  // by start
};

class PlannedTensor {
 public:
  explicit PlannedTensor(layout::Plan plan) : plan_(std::move(plan)), index_(plan_) {}
  PlannedTensor(const PlannedTensor&) = delete;
  PlannedTensor& operator=(const PlannedTensor&) = delete;

  const layout::Plan& plan() const { return plan_; }
  const PartIndex& index() const { return index_; }

 private:
  layout::Plan plan_;
  PartIndex index_;  // into plan_
};

// Throws as resolved_plan.
std::shared_ptr<const PlannedTensor> planned_tensor(const trace::Source& source,
                                                    const trace::TensorEntry& entry);

}  // namespace ttrace::measure
