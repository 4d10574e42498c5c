#include "measure/shard_reader.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "layout/mesh.h"
#include "tensor/codec.h"
#include "tensor/run_cursor.h"
#include "trace/placement.h"
#include "trace/placements/flat.h"

namespace ttrace::measure {

void decode(const StoredValues& values, std::span<double> out) {
  tensor::decode_floats(values.dtype, values.bits, out);
  if (values.scale == 1) return;
  for (double& value : out) value *= values.scale;
}

namespace {

const trace::TensorEntry& index_entry(const trace::Source& source, const trace::TensorKey& key) {
  for (const trace::TensorEntry& entry : source.manifest().tensors) {
    if (entry.key == key) return entry;
  }
  throw base::input_error(source.path(), ": there is no tensor ", to_string(key));
}

std::vector<std::int64_t> rank_numbers(const trace::Source& source, const trace::TensorEntry& index,
                                       const trace::Mesh& mesh, std::uint64_t rank) {
  const auto held = layout::local_layout(index, mesh, layout::coordinates_of(mesh, rank));
  if (!held) throw base::internal_error("rank ", rank, " holds no part of its index");
  std::vector<std::int64_t> numbers(held->dataset_shape()[0]);
  if (numbers.empty()) return numbers;
  ShardReader reader(source, index, rank, *held);
  std::vector<std::byte> bits;
  reader.read_bits(tensor::whole(held->shape), bits);
  tensor::decode_integers(index.dtype, bits, numbers);
  return numbers;
}

// The places that the labels of an index give to rows of a dimension of `extent`.
class LabelledRows {
 public:
  LabelledRows(const trace::Source& source, const trace::TensorEntry& index,
               const trace::Mesh& mesh, std::uint64_t extent)
      : source_(source), index_(index), mesh_(mesh) {
    for (const layout::Block& block : layout::plan_layout(index, mesh).blocks) {
      const auto numbers = rank_numbers(source, index, mesh, block.terms[0].ranks[0]);
      labels_.insert(labels_.end(), numbers.begin(), numbers.end());
    }
    std::sort(labels_.begin(), labels_.end());
    const auto twice = std::adjacent_find(labels_.begin(), labels_.end());
    if (twice != labels_.end()) {
      throw base::input_error(
          index.key.name, ": the label ", *twice,
          " is listed twice; give every row of the whole tensor one of its own, "
          "such as token * choices + choice");
    }
    if (!labels_.empty() && labels_.front() < 0) {
      throw base::input_error(index.key.name, ": the label ", labels_.front(),
                              " is negative; rows with padding are placed by their numbers");
    }
    if (labels_.size() != extent) {
      throw base::input_error(index.key.name, ": lists ", labels_.size(), " rows, of ", extent,
                              " that the tensor has");
    }
  }

  std::vector<std::int64_t> of(std::uint64_t rank) const {
    std::vector<std::int64_t> numbers = rank_numbers(source_, index_, mesh_, rank);
    for (std::int64_t& number : numbers) {
      const auto place = std::lower_bound(labels_.begin(), labels_.end(), number);
      number = static_cast<std::int64_t>(place - labels_.begin());
    }
    return numbers;
  }

 private:
  const trace::Source& source_;
  const trace::TensorEntry& index_;
  const trace::Mesh& mesh_;
  std::vector<std::int64_t> labels_;  // ascending
};

}  // namespace

layout::Plan resolved_plan(const trace::Source& source, const trace::TensorEntry& entry) {
  const trace::Mesh& mesh = source.manifest().meshes.at(entry.mesh);
  const trace::Rows* rows = layout::rows_placement(entry);
  if (rows == nullptr) return layout::plan_layout(entry, mesh);
  const trace::TensorEntry& index = index_entry(source, trace::index_key(entry.key, rows->index));
  try {
    if (!rows->labels) {
      return layout::plan_layout(
          entry, mesh, [&](std::uint64_t rank) { return rank_numbers(source, index, mesh, rank); });
    }
    const LabelledRows places(source, index, mesh, entry.shape[rows->dim]);
    return layout::plan_layout(entry, mesh, [&](std::uint64_t rank) { return places.of(rank); });
  } catch (const base::InputError& error) {
    throw error.in(base::concat(source.path(), ": ", to_string(entry.key)));
  }
}

namespace {

// Up to this many times the elements of a box, one read with the gaps between its rows costs less
// than a read per row.
constexpr std::uint64_t kWorthwhileSurplus = 4;
constexpr std::uint64_t kSmallRead = std::uint64_t{1} << 20;

// Returns the first elements of the runs of `row` elements that the box consists of.
tensor::Box row_starts(const tensor::Box& box, const tensor::Shape& shape, std::uint64_t& row) {
  tensor::Box rows = box;
  row = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    row *= box.extent[d];
    rows.extent[d] = 1;
    if (box.extent[d] != shape[d]) break;
  }
  return rows;
}

}  // namespace

std::uint64_t read_flat_box(const trace::Dataset& dataset, const tensor::Shape& shape,
                            const layout::Range& range, const tensor::Box& box,
                            std::span<std::byte> out) {
  if (out.empty()) return 0;
  const std::size_t width = tensor::element_bytes(dataset.facts().dtype);
  const auto read = [&](std::uint64_t start, std::uint64_t length, std::span<std::byte> to) {
    dataset.read({{start - range.start}, {length}}, to);
    return length * width;
  };
  std::uint64_t row = 1;
  const tensor::Box rows = row_starts(box, shape, row);
  const std::uint64_t count = tensor::volume(rows);
  const std::uint64_t first = tensor::position(shape, box.origin);
  if (count == 1) return read(first, row, out);

  const std::uint64_t last = tensor::position(shape, tensor::coordinates(rows, count - 1)) + row;
  const std::uint64_t span = last - first;
  if (span * width <= kSmallRead || span / kWorthwhileSurplus <= row * count) {
    std::vector<std::byte> all(span * width);
    const std::uint64_t bytes = read(first, span, all);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t at = tensor::position(shape, tensor::coordinates(rows, i)) - first;
      std::memcpy(out.data() + i * row * width, all.data() + at * width, row * width);
    }
    return bytes;
  }
  std::uint64_t bytes = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    bytes += read(tensor::position(shape, tensor::coordinates(rows, i)), row,
                  out.subspan(i * row * width, row * width));
  }
  return bytes;
}

ShardReader::ShardReader(const trace::Source& source, const trace::TensorEntry& entry,
                         std::uint64_t rank, const layout::LocalLayout& held, Between between)
    : source_(&source),
      entry_(&entry),
      rank_(rank),
      between_(between),
      array_(held.shape),
      range_(held.range) {
  if (const auto problem = source.rank_problem(rank)) throw base::input_error(*problem);
  const std::string path = dataset_path(entry.key);
  dataset_ = source.open(rank, path);
  const trace::DatasetFacts& facts = dataset_->facts();
  const tensor::Shape shape = held.dataset_shape();
  if (facts.dtype != entry.dtype || facts.shape != shape) {
    throw base::input_error(
        source.rank_file(rank), ": ", path, ": dataset is ", tensor::to_string(facts.shape), " ",
        tensor::dtype_short_name(facts.dtype), ", the manifest's placement gives rank ", rank, " ",
        tensor::to_string(shape), " ", tensor::dtype_short_name(entry.dtype),
        "; give its layout with --layout, or correct it in the collector and dump again");
  }
  close_if_wanted();
}

void ShardReader::close_if_wanted() {
  if (between_ == Between::kClose) dataset_.reset();
}

void ShardReader::read_bits(const tensor::Box& box, std::vector<std::byte>& bits) {
  bits.resize(tensor::volume(box) * tensor::element_bytes(entry_->dtype));
  if (!dataset_) dataset_ = source_->open(rank_, dataset_path(entry_->key));
  if (range_) {
    bytes_read_ += read_flat_box(*dataset_, array_, *range_, box, bits);
  } else {
    dataset_->read(box, bits);
    bytes_read_ += bits.size();
  }
  close_if_wanted();
}

std::optional<StoredValues> ShardReader::values_on_device(const tensor::Box& box,
                                                          const Backend& backend) {
  if (range_ || !dataset_) return std::nullopt;
  const std::optional<trace::DeviceMemory> memory = dataset_->device_memory();
  if (!memory || !backend.reads_device(memory->device)) return std::nullopt;
  const tensor::RunCursor cursor(box, tensor::whole(array_));
  if (!cursor.is_one_run()) return std::nullopt;
  const std::size_t width = tensor::element_bytes(entry_->dtype);
  const std::uint64_t bytes = tensor::volume(box) * width;
  bytes_read_ += bytes;
  return StoredValues{memory->bits.subspan(cursor.offset() * width, bytes), entry_->dtype,
                      entry_->scale, memory->device};
}

void ShardReader::decode(std::span<const std::byte> bits, std::span<double> out) const {
  measure::decode({bits, entry_->dtype, entry_->scale}, out);
}

}  // namespace ttrace::measure
