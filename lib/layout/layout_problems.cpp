// Checks the layouts of a whole manifest without enumerating its ranks: along every axis it follows
// one rank for each different shape that the earlier axes leave.
#include "layout/layout_problems.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "layout/plan.h"
#include "trace/placement.h"

namespace ttrace::layout {
namespace {

using base::concat;

constexpr std::size_t kMostShapes = 100'000;

// The local layout of one rank after some of the axes. There is one for every different shape.
struct Example {
  std::vector<Ranges> held;
  std::vector<std::uint64_t> position;  // within each axis' held coordinates
};
using Examples = std::map<tensor::Shape, Example>;

class EntryCheck {
 public:
  EntryCheck(const trace::TensorEntry& entry, const trace::Mesh& mesh)
      : mesh_(mesh), views_(axis_views(entry, mesh)) {
    Example whole{{}, std::vector<std::uint64_t>(views_.size(), 0)};
    for (const std::uint64_t extent : entry.shape) {
      whole.held.emplace_back();
      append(whole.held.back(), {0, extent});
    }
    examples_.emplace(entry.shape, std::move(whole));
  }

  void run() {
    combination_of(views_);
    const AxisView* flat = nullptr;
    for (std::size_t a = 0; a < views_.size(); ++a) {
      const trace::Placement& placement = *views_[a].placement;
      try {
        if (const auto* boxes = std::get_if<trace::Boxes>(&placement)) check_boxes(*boxes, a);
        if (!std::holds_alternative<trace::Flat>(placement)) {
          cut_all(a);
        } else if (std::exchange(flat, &views_[a]) != nullptr) {
          throw base::input_error("a second axis is flat");
        }
      } catch (const base::InputError& error) {
        throw error.in(concat("placements/", *views_[a].name));
      }
    }
    check_box_count();
    if (flat == nullptr) return;
    try {
      check_flat(static_cast<std::size_t>(flat - views_.data()));
    } catch (const base::InputError& error) {
      throw error.in(concat("placements/", *flat->name));
    }
  }

 private:
  // A tensor that is cut finely along several dimensions has very many boxes.
  void check_box_count() const {
    std::optional<std::uint64_t> ranks = 1;
    for (const AxisView& view : views_) {
      if (cuts(*view.placement)) ranks = base::checked_mul(*ranks, view.held.size());
    }
    for (const auto& [shape, example] : examples_) {
      std::optional<std::uint64_t> boxes = ranks;
      for (const Ranges& ranges : example.held) {
        if (boxes) boxes = base::checked_mul(*boxes, ranges.size());
      }
      if (boxes && *boxes <= kMostBoxes) continue;
      throw base::input_error("placements: the ranks would hold more than ", kMostBoxes,
                              " separate boxes");
    }
  }

  // Whether an axis that is applied after `axis` states sizes that could contradict what `axis`
  // leaves.
  bool checked_later(std::size_t axis) const {
    for (std::size_t a = 0; a < views_.size(); ++a) {
      const trace::Placement& placement = *views_[a].placement;
      if (std::holds_alternative<trace::Flat>(placement)) return true;  // applied last
      if (a > axis && gives_extents(placement)) return true;
    }
    return false;
  }

  void cut_all(std::size_t axis) {
    if (!cuts(*views_[axis].placement)) return;
    // The first coordinate shows whether the sizes fit; the others only leave shapes for later
    // axes.
    const std::uint64_t count = checked_later(axis) ? views_[axis].held.size() : 1;
    Examples left;
    for (const auto& [shape, example] : examples_) {
      for (std::uint64_t i = 0; i < count; ++i) {
        Example cut = example;
        apply_cut(*views_[axis].placement, views_[axis].held.size(), i, cut.held);
        cut.position[axis] = i;
        tensor::Shape extents;
        for (const Ranges& ranges : cut.held) extents.push_back(total(ranges));
        left.emplace(std::move(extents), std::move(cut));
      }
      if (left.size() > kMostShapes) {
        throw base::input_error("the ranks would hold more than ", kMostShapes,
                                " different shapes");
      }
    }
    examples_ = std::move(left);
  }

  void check_boxes(const trace::Boxes& boxes, std::size_t axis) const {
    const trace::Placement& placement = *views_[axis].placement;
    require_fitting_lists(placement, views_[axis].held.size());
    for (const auto& [shape, example] : examples_) {
      for (std::size_t i = 0; i < boxes.boxes.size(); ++i) {
        std::vector<Ranges> ignored = example.held;
        apply_cut(placement, boxes.boxes.size(), i, ignored);  // throws if the box ends outside
      }
      for (const CoverageDefect& defect : coverage_defects(shape, boxes.boxes, 1)) {
        throw base::input_error(place(example.held, defect.where, shape), " is",
                                owners(defect.owners, axis, example));
      }
    }
  }

  void check_flat(std::size_t axis) const {
    const auto& ranges = std::get<trace::Flat>(*views_[axis].placement).ranges;
    require_fitting_lists(*views_[axis].placement, views_[axis].held.size());
    std::vector<tensor::Box> runs;
    for (const auto& range : ranges) runs.push_back({{range.start}, {range.stop - range.start}});
    for (const auto& [shape, example] : examples_) {
      const std::uint64_t elements = tensor::volume(tensor::whole(shape));
      for (std::size_t i = 0; i < ranges.size(); ++i) {
        if (ranges[i].stop <= elements) continue;
        throw base::input_error("range ", i, " ends at ", ranges[i].stop, ", but the array of ",
                                tensor::to_string(shape), " has ", elements, " elements");
      }
      for (const CoverageDefect& defect : coverage_defects({elements}, runs, 1)) {
        const std::uint64_t start = defect.where.origin[0];
        const std::uint64_t stop = start + defect.where.extent[0];
        const tensor::Box first = trace::flat_boxes(shape, start, stop)[0];
        throw base::input_error("elements ", start, " to ", stop - 1, " of the flattened ",
                                tensor::to_string(shape), ", from ",
                                place(example.held, first, shape), " on, are",
                                owners(defect.owners, axis, example));
      }
    }
  }

  // Describes a box of a rank's array in coordinates of the tensor, or the first box if it is
  // several there.
  static std::string place(const std::vector<Ranges>& held, const tensor::Box& local,
                           const tensor::Shape& shape) {
    const LocalLayout whole = make_local_layout(held, std::nullopt);
    for (const PlacedBox& part : whole.parts) {
      const auto common = tensor::intersect(part.local, local);
      if (!common) continue;
      tensor::Box global = tensor::relative_to(*common, part.local.origin);
      return tensor::to_string(tensor::shifted(global, part.global.origin));
    }
    return concat(tensor::to_string(local), " of ", tensor::to_string(shape));
  }

  std::string owners(const std::vector<std::size_t>& boxes, std::size_t axis,
                     const Example& example) const {
    if (boxes.empty()) return " held by nobody";
    std::string text = " held by";
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      std::vector<std::uint64_t> position = example.position;
      position[axis] = boxes[i];
      text += concat(i > 0 ? " and by " : " ", *views_[axis].name, " ", views_[axis].held[boxes[i]],
                     " (rank ", rank_of(views_, mesh_, position), ")");
    }
    return text;
  }

  const trace::Mesh& mesh_;
  std::vector<AxisView> views_;
  Examples examples_;
};

using EntriesByKey = std::map<trace::TensorKey, const trace::TensorEntry*>;

// Checks the layout of the index: every rank that holds rows of the tensor has the shard of the
// index that names them.
void check_index(const trace::TensorEntry& entry, const trace::Mesh& mesh, const std::string& axis,
                 const trace::Rows& rows, const EntriesByKey& indices) {
  const auto found = indices.find(index_key(entry.key, rows.index));
  if (found == indices.end()) {
    throw base::input_error("there is no tensor ", to_string(index_key(entry.key, rows.index)));
  }
  const trace::TensorEntry& index = *found->second;
  if (index.shape.size() != 1 || tensor::is_floating(index.dtype)) {
    throw base::input_error("the index is ", tensor::to_string(index.shape), " ",
                            tensor::dtype_name(index.dtype),
                            ", expected integers in one dimension");
  }
  if (index.mesh != entry.mesh) {
    throw base::input_error("the index lies on the mesh \"", index.mesh, "\", the tensor on \"",
                            entry.mesh, "\"");
  }
  const std::vector<AxisView> index_views = axis_views(index, mesh);
  const std::vector<AxisView> views = axis_views(entry, mesh);
  for (std::size_t a = 0; a < views.size(); ++a) {
    const bool by_rows = std::holds_alternative<trace::Rows>(*views[a].placement);
    const trace::Placement& placed = *index_views[a].placement;
    if (std::holds_alternative<trace::Rows>(placed)) {
      throw base::input_error("the index is itself placed by rows over ", *views[a].name);
    }
    if (std::holds_alternative<trace::Partial>(placed)) {
      throw base::input_error("the index is a partial ",
                              reduction_name(std::get<trace::Partial>(placed).reduction), " over ",
                              *views[a].name, "; every rank has its own row numbers");
    }
    if (by_rows != cuts(placed)) {
      throw base::input_error("the index is ", by_rows ? "not cut" : "cut", " over ",
                              *views[a].name, ", the tensor is ", by_rows ? "" : "not ",
                              "placed by its rows there");
    }
    if (!std::includes(index_views[a].held.begin(), index_views[a].held.end(),
                       views[a].held.begin(), views[a].held.end())) {
      throw base::input_error("the index is not held at all coordinates of ", *views[a].name,
                              " that hold the tensor");
    }
  }
  for (const auto& [other, placement] : entry.placements) {
    const auto* other_rows = std::get_if<trace::Rows>(&placement);
    if (other == axis || (other_rows != nullptr && *other_rows == rows)) continue;
    const auto dim = trace::cut_dimension(placement);
    if (other_rows != nullptr || (cuts(placement) && dim.value_or(rows.dim) == rows.dim)) {
      throw base::input_error("dimension ", rows.dim, " is placed by rows, and by ",
                              to_string(placement), " over ", other, " as well");
    }
  }
}

void check_entry(const trace::TensorEntry& entry, const trace::Mesh& mesh,
                 const EntriesByKey& indices) {
  EntryCheck(entry, mesh).run();
  for (const auto& [axis, placement] : entry.placements) {
    const auto* rows = std::get_if<trace::Rows>(&placement);
    if (rows == nullptr) continue;
    try {
      check_index(entry, mesh, axis, *rows, indices);
    } catch (const base::InputError& error) {
      throw error.in(concat("placements/", axis, "/rows"));
    }
  }
}

}  // namespace

std::vector<std::string> layout_problems(const trace::Manifest& manifest) {
  EntriesByKey indices;
  for (const trace::TensorEntry& entry : manifest.tensors) {
    if (entry.key.kind == trace::Kind::kIndex) indices.emplace(entry.key, &entry);
  }
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const trace::TensorEntry& entry = manifest.tensors[i];
    try {
      check_entry(entry, manifest.meshes.at(entry.mesh), indices);
    } catch (const base::InputError& error) {
      problems.push_back(concat("/tensors/", i, "/", error.what(), " (", to_string(entry.key),
                                ", shape ", tensor::to_string(entry.shape), ")"));
    }
  }
  return problems;
}

}  // namespace ttrace::layout
