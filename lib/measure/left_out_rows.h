// Rows of tensors that a comparison leaves out: those of tokens that are known to differ.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tensor/box.h"

namespace ttrace::measure {

// Returns the smallest number of leading dimensions of `shape` that have `rows` rows in all;
// nothing if there is none.
std::optional<std::size_t> row_dimensions(const tensor::Shape& shape, std::uint64_t rows);

class LeftOutRows {
 public:
  explicit LeftOutRows(std::uint64_t rows) : out_(rows, false) {}

  void add(std::uint64_t row) { out_[row] = true; }
  // Adds those of another set over the same rows.
  void add(const LeftOutRows& other);

  std::uint64_t rows() const { return out_.size(); }
  std::uint64_t count() const;
  bool contains(std::uint64_t row) const { return out_[row]; }

  // Makes candidate equal to reference in every row left out, so that it adds no difference. Both
  // have the values of `box`, row-major, of a tensor of `shape`, whose leading dimensions must have
  // as many rows.
  void apply(const tensor::Shape& shape, const tensor::Box& box, std::span<const double> reference,
             std::span<double> candidate) const;

 private:
  std::vector<bool> out_;
};

}  // namespace ttrace::measure
