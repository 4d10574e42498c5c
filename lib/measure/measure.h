// Measures the difference of one tensor of the candidate from the reference's, in one pass. judge/
// decides whether it is too large.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/shared_value.h"
#include "measure/backend.h"
#include "measure/grid.h"
#include "measure/sections.h"
#include "measure/tensor_reader.h"
#include "measure/tile_stats.h"
#include "tensor/box.h"

namespace ttrace::measure {

// Returns the smallest number of leading dimensions of `shape` that have `rows` rows in all;
// nothing if there is none.
std::optional<std::size_t> row_dimensions(const tensor::Shape& shape, std::uint64_t rows);

// Rows of tensors that a comparison leaves out: those of tokens that are known to differ.
class LeftOutRows {
 public:
  explicit LeftOutRows(std::uint64_t rows) : out_(rows, false) {}

  void add(std::uint64_t row) { out_[row] = true; }
  // Adds another set over the same rows.
  void add(const LeftOutRows& other);

  std::uint64_t rows() const { return out_.size(); }
  std::uint64_t count() const;
  bool contains(std::uint64_t row) const { return out_[row]; }

  // Copies the reference's values to the candidate in every row left out. Both have the values of
  // `box`, row-major, of a tensor of `shape`, whose leading dimensions must have as many rows.
  void apply(const tensor::Shape& shape, const tensor::Box& box, std::span<const double> reference,
             std::span<double> candidate) const;

 private:
  std::vector<bool> out_;
};

// How the numbers of one side are stored: as numbers of a type, times a scale.
struct StoredAs {
  tensor::DType dtype = tensor::DType::kFloat32;
  double scale = 1;

  bool operator==(const StoredAs&) const = default;
};

// Which numbers of two sides that are stored in other types are one number, rounded.
class Roundings {
 public:
  Roundings(const StoredAs& reference, const StoredAs& candidate)
      : reference_(reference), candidate_(candidate) {}

  // Copies the reference's values to the candidate where either is the other one, rounded as its
  // own side stores it. Values that are not finite stay.
  void apply(std::span<const double> reference, std::span<double> candidate) const;

 private:
  StoredAs reference_;
  StoredAs candidate_;
};

// What counts as equal although it differs. All that is pointed to must outlive what uses it.
struct CountsAsEqual {
  const LeftOutRows* rows = nullptr;
  const Roundings* roundings = nullptr;

  bool any() const { return rows != nullptr || roundings != nullptr; }
};

// The difference in the boxes that the same ranks of the candidate hold.
struct BlockStats {
  base::SharedValue<RankBoxes> owner;  // in coordinates of the logical tensor
  TileStats stats;
};

// Replicas of the candidate that should be equal and are not.
struct ReplicaDifference {
  double distance_norm = 0;  // largest over replicas: ‖replica - first replica‖, whole tensor
  std::vector<std::vector<std::uint64_t>> classes;  // in the block where they are furthest apart
  CheckPath path = {};                              // that block

  bool operator==(const ReplicaDifference&) const = default;
};

struct Measurement {
  TileStats total;
  std::vector<BlockStats> blocks;  // one per shard of the candidate, replicas together
  std::vector<CellSums> cells;     // by the grid: a is the reference, b the candidate
  bool has_replicas = false;       // the candidate's layout has replicas, which were checked
  bool replicas_differ = false;
  base::SharedValue<ReplicaDifference> replicas;
  std::optional<ElementPlace> largest_place;  // of total.largest in the candidate
  std::uint64_t bytes_read = 0;
};

// The measurement of one section (sections.h).
struct MeasuredSection {
  Measurement sums;  // without `total` and `replicas`
  std::map<CheckPath, ReplicaCheck> checks;
};

// Measures one section of a pair of tensors of one shape. Many small tensors can share a batch:
// they are read one after the other, and the backend may compute them together.
class SectionMeasuring {
 public:
  // Integers and bool are compared exactly (`total.unequal`). `grid`, of the same shape: also sums
  // the differences cell by cell; may be null. `equal`: of tensors that are compared as
  // floating-point numbers. All must outlive this; opens both tensors and throws an input error if
  // that fails.
  SectionMeasuring(const Backend& backend, const TensorRef& reference, const TensorRef& candidate,
                   const Grid* grid, const CountsAsEqual& equal = {});

  // Reads `section` box by box in bounded memory and adds its requests to `batch`. Throws an
  // input error if a shard cannot be read. This must live until the batch is finished.
  void add_to(Batch& batch, const tensor::Box& section);

  // Returns the measurement. Call it once, after the batch is finished.
  MeasuredSection take();

 private:
  void read_numbers(BoxReader& tensor, const tensor::Box& box) const;
  void add_numbers(const tensor::Box& box, TileStats& stats, Batch& batch);
  void add_integers(const tensor::Box& box, TileStats& stats, Batch& batch);

  const Backend& backend_;
  BoxReader reference_;
  BoxReader candidate_;
  tensor::Shape shape_;
  bool exact_;
  const Grid* grid_;
  CountsAsEqual equal_;
  std::vector<double> reference_numbers_;
  MeasuredSection measured_;
};

// Measures one section in a batch of its own.
MeasuredSection measure_section(const Backend& backend, const TensorRef& reference,
                                const TensorRef& candidate, const Grid* grid,
                                const tensor::Box& section, const CountsAsEqual& equal = {});
// Adds up all sections of a tensor, in their order.
Measurement merge_sections(std::vector<MeasuredSection> sections);

// Measures all sections in turn.
Measurement measure(const Backend& backend, const TensorRef& reference, const TensorRef& candidate,
                    const Grid* grid, const CountsAsEqual& equal = {});

// Returns errors[d][i]: Σ (C - R)² over the elements whose index along dimension d is i. Pairs with
// a non-finite value do not count. Reads both, of one shape, once and in bounded memory. Throws an
// input error if a shard cannot be read.
std::vector<std::vector<double>> squared_errors_by_index(const TensorRef& reference,
                                                         const TensorRef& candidate);

}  // namespace ttrace::measure
