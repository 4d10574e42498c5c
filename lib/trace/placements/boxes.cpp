#include "trace/placements/boxes.h"

#include "base/strict_json.h"

namespace ttrace::trace {

using base::concat;
using tensor::Ranges;

bool Boxes::is_spelled(const base::JsonCursor& value) { return has_member(value, kKeyword); }

Boxes Boxes::parse(const base::JsonCursor& value) {
  value.allow_keys({kKeyword});
  Boxes boxes;
  for (const base::JsonCursor& item : value.require(kKeyword).items()) {
    const std::vector<base::JsonCursor> both = item.items();
    if (both.size() != 2) throw item.error("expected [[offset, ...], [size, ...]]");
    tensor::Box box{both[0].as_counts(), both[1].as_counts()};
    if (box.origin.size() != box.extent.size()) {
      throw item.error(box.origin.size(), " offsets and ", box.extent.size(), " sizes");
    }
    boxes.boxes.push_back(std::move(box));
  }
  return boxes;
}

std::string Boxes::json() const {
  std::string text = "{\"boxes\":[";
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    text += concat(i > 0 ? "," : "", "[", json_list(boxes[i].origin), ",",
                   json_list(boxes[i].extent), "]");
  }
  return text + "]}";
}

std::string Boxes::describe() const { return "boxes"; }

std::string Boxes::describe_numbers() const {
  return " " + describe_list(boxes, [](const tensor::Box& box) {
           return concat("[", describe_list(box.origin), ", ", describe_list(box.extent), "]");
         });
}

std::string Boxes::describe_over(const std::string& axis) const {
  return concat("boxes over ", axis);
}

std::optional<std::string> Boxes::misfit(const PlacedTensor& tensor) const {
  for (const tensor::Box& box : boxes) {
    if (box.extent.size() == tensor.shape.size()) continue;
    return concat("a box of ", box.extent.size(), " dimensions, but the tensor's shape is ",
                  tensor::to_string(tensor.shape));
  }
  return std::nullopt;
}

void Boxes::require_lists_for(std::uint64_t count) const {
  require_one_each(boxes.size(), "boxes", count);
}

void Boxes::cut(std::uint64_t /*count*/, std::uint64_t index, std::vector<Ranges>& held) const {
  const tensor::Box& box = boxes[index];
  for (std::size_t d = 0; d < held.size(); ++d) {
    const std::uint64_t extent = total(held[d]);
    if (box.origin[d] > extent || box.extent[d] > extent - box.origin[d]) {
      throw base::input_error("box ", index, ", offset ", tensor::to_string(box.origin), " size ",
                              tensor::to_string(box.extent), ", ends outside dimension ", d,
                              ", of which there are ", extent, " elements");
    }
    Ranges positions;
    append(positions, {box.origin[d], box.extent[d]});
    held[d] = select(held[d], positions);
  }
}

}  // namespace ttrace::trace
