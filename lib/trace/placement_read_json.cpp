#include <optional>

#include "base/text.h"
#include "trace/placement_json.h"

namespace ttrace::trace {
namespace {

using base::JsonCursor;

constexpr std::string_view kKnown =
    "expected \"replicate\" or an object with shard, partial, only, flat, boxes or rows";

std::vector<std::uint64_t> counts(const JsonCursor& list) {
  std::vector<std::uint64_t> values;
  for (const JsonCursor& item : list.items()) values.push_back(item.as_count());
  return values;
}

Segments segments_from(const JsonCursor& value, std::uint64_t dim) {
  value.allow_keys({"shard", "segments", "repeat", "sizes"});
  const JsonCursor list = value.require("segments");
  Segments segments{dim, counts(list), 1, std::nullopt};
  if (segments.segments.empty()) throw list.error("expected at least one segment");
  if (const auto repeat = value.find("repeat")) {
    segments.repeat = repeat->as_count();
    if (segments.repeat == 0) throw repeat->error("the segments are repeated 0 times");
  }
  if (const auto sizes = value.find("sizes")) {
    segments.sizes.emplace();
    for (const JsonCursor& item : sizes->items()) segments.sizes->push_back(counts(item));
    if (segments.sizes->size() != segments.segments.size()) {
      throw sizes->error("lists of parts for ", segments.sizes->size(), " segments, but there are ",
                         segments.segments.size());
    }
  }
  return segments;
}

Placement shard_from(const JsonCursor& value) {
  const std::uint64_t dim = value.require("shard").as_count();
  if (const auto order = value.find("order")) {
    value.allow_keys({"shard", "order"});
    if (order->as_string() != "zigzag") {
      throw order->error("unknown order \"", base::printable(order->as_string()),
                         "\", expected \"zigzag\"");
    }
    return Zigzag{dim};
  }
  if (value.find("segments")) return segments_from(value, dim);
  if (const auto stride = value.find("stride")) {
    value.allow_keys({"shard", "stride"});
    if (stride->as_count() == 0) throw stride->error("a stride of 0");
    return Strided{dim, stride->as_count()};
  }
  value.allow_keys({"shard", "sizes"});
  Shard shard{dim, std::nullopt};
  if (const auto sizes = value.find("sizes")) shard.sizes = counts(*sizes);
  return shard;
}

Partial partial_from(const JsonCursor& value) {
  value.allow_keys({"partial"});
  const JsonCursor reduction = value.require("partial");
  const std::string word = reduction.as_string();
  for (const Reduction known : {Reduction::kSum, Reduction::kMean, Reduction::kMax}) {
    if (word == reduction_name(known)) return {known};
  }
  throw reduction.error("unknown reduction \"", base::printable(word),
                        "\", expected sum, mean or max");
}

Flat flat_from(const JsonCursor& list) {
  Flat flat;
  for (const JsonCursor& item : list.items()) {
    const std::vector<std::uint64_t> range = counts(item);
    if (range.size() != 2) throw item.error("expected [start, stop]");
    if (range[1] < range[0])
      throw item.error("stops at ", range[1], ", before its start ", range[0]);
    flat.ranges.push_back({range[0], range[1]});
  }
  return flat;
}

Boxes boxes_from(const JsonCursor& list) {
  Boxes boxes;
  for (const JsonCursor& item : list.items()) {
    const std::vector<JsonCursor> parts = item.items();
    if (parts.size() != 2) throw item.error("expected [[offset, ...], [size, ...]]");
    tensor::Box box{counts(parts[0]), counts(parts[1])};
    if (box.origin.size() != box.extent.size()) {
      throw item.error(box.origin.size(), " offsets and ", box.extent.size(), " sizes");
    }
    boxes.boxes.push_back(std::move(box));
  }
  return boxes;
}

Rows rows_from(const JsonCursor& object) {
  object.allow_keys({"dim", "index"});
  const JsonCursor index = object.require("index");
  Rows rows{object.require("dim").as_count(), index.as_string()};
  if (const auto problem = name_problem(rows.index)) throw index.error(*problem);
  return rows;
}

std::uint64_t axis_size(const Mesh& mesh, const std::string& axis, const JsonCursor& at) {
  for (const MeshAxis& known : mesh.axes) {
    if (known.name == axis) return known.size;
  }
  throw at.error("the mesh has no axis \"", base::printable(axis), "\"");
}

}  // namespace

Placement placement_from(const JsonCursor& value) {
  if (value.is_string()) {
    const std::string word = value.as_string();
    if (word == "replicate") return Replicate{};
    throw value.error("unknown placement \"", base::printable(word), "\", ", kKnown);
  }
  if (value.find("shard")) return shard_from(value);
  if (value.find("partial")) return partial_from(value);
  if (const auto only = value.find("only")) {
    value.allow_keys({"only"});
    return Only{only->as_count()};
  }
  if (const auto flat = value.find("flat")) {
    value.allow_keys({"flat"});
    return flat_from(*flat);
  }
  if (const auto boxes = value.find("boxes")) {
    value.allow_keys({"boxes"});
    return boxes_from(*boxes);
  }
  if (const auto rows = value.find("rows")) {
    value.allow_keys({"rows"});
    return rows_from(*rows);
  }
  throw value.error("unknown placement, ", kKnown);
}

std::vector<std::uint64_t> held_coordinates_from(const JsonCursor& list, const std::string& axis,
                                                 const Mesh& mesh) {
  const std::uint64_t size = axis_size(mesh, axis, list);
  std::vector<std::uint64_t> held = counts(list);
  if (held.empty()) throw list.error("held at no coordinate");
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held[i] >= size) {
      throw list.error("coordinate ", held[i], ", but the axis has size ", size);
    }
    if (i > 0 && held[i] <= held[i - 1]) {
      throw list.error("coordinates must ascend: ", held[i - 1], " before ", held[i]);
    }
  }
  return held;
}

void check_placement(const Placement& placement, const std::string& axis, const TensorEntry& entry,
                     const Mesh& mesh, const JsonCursor& value) {
  const std::uint64_t size = axis_size(mesh, axis, value);
  const auto restricted = entry.held_at.find(axis);
  if (const auto dim = cut_dimension(placement); dim && *dim >= entry.shape.size()) {
    throw value.error("shard of dimension ", *dim, ", but the tensor's shape is ",
                      tensor::to_string(entry.shape));
  }
  if (const auto* boxes = std::get_if<Boxes>(&placement)) {
    for (const tensor::Box& box : boxes->boxes) {
      if (box.extent.size() == entry.shape.size()) continue;
      throw value.error("a box of ", box.extent.size(), " dimensions, but the tensor's shape is ",
                        tensor::to_string(entry.shape));
    }
  } else if (const auto* only = std::get_if<Only>(&placement)) {
    if (only->coordinate >= size) {
      throw value.error("only ", only->coordinate, ", but the axis has size ", size);
    }
    if (restricted != entry.held_at.end()) {
      throw value.error("\"only\" and \"held_at\" both restrict this axis; give one");
    }
  } else if (std::holds_alternative<Partial>(placement) && !tensor::is_floating(entry.dtype)) {
    throw value.error("partial of ", tensor::dtype_name(entry.dtype),
                      "; only floating-point tensors are reduced");
  }
}

}  // namespace ttrace::trace
