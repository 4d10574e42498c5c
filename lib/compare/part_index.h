// Which parts of a plan a box of the tensor touches, without looking at all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "layout/plan.h"

namespace ttrace::compare {

class PartIndex {
 public:
  // `plan` must outlive the index.
  explicit PartIndex(const layout::Plan& plan);

  // Visits every part that shares elements with `box`, with the index of its block; stops when
  // `visit` returns false.
  void for_each(
      const tensor::Box& box,
      const std::function<bool(std::size_t block, const layout::Part& part)>& visit) const;

 private:
  struct Located {
    std::uint64_t start = 0;
    std::size_t block = 0;
    const layout::Part* part = nullptr;
  };

  std::size_t dim_ = 0;  // the one along which parts start at the most places
  std::uint64_t longest_ = 0;
  std::vector<Located> parts_;  // by start
};

}  // namespace ttrace::compare
