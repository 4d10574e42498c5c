#include "layout/plan.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "trace/placement.h"

namespace ttrace::layout {
namespace {

using Position = std::vector<std::uint64_t>;

// Position of `position` among the axes for which `counts(placement)`, in row-major order.
template <typename Counts>
std::uint64_t linear_over(const std::vector<AxisView>& views, const Position& position,
                          Counts counts) {
  std::uint64_t linear = 0;
  for (std::size_t a = 0; a < views.size(); ++a) {
    if (counts(*views[a].placement)) linear = linear * views[a].held.size() + position[a];
  }
  return linear;
}

bool is_partial(const trace::Placement& placement) {
  return trace::sharing(placement) == trace::Sharing::kTerms;
}

const trace::Rows* rows_of(const std::vector<AxisView>& views) {
  for (const AxisView& view : views) {
    if (const auto* rows = std::get_if<trace::Rows>(view.placement)) return rows;
  }
  return nullptr;
}

// Computes the local layouts of a tensor's ranks.
class RankLayouts {
 public:
  RankLayouts(const trace::TensorEntry& entry, const trace::Mesh& mesh,
              const std::vector<AxisView>& views, const RowNumbers& rows)
      : entry_(entry), mesh_(mesh), views_(views), rows_(rows), by_rows_(rows_of(views)) {}

  LocalLayout at(const Position& position) const {
    std::vector<Ranges> held(entry_.shape.size());
    for (std::size_t d = 0; d < held.size(); ++d) append(held[d], {0, entry_.shape[d]});
    std::optional<Range> range;
    for (std::size_t a = 0; a < views_.size(); ++a) {
      const AxisView& view = views_[a];
      try {
        apply_cut(*view.placement, view.held.size(), position[a], held);
      } catch (const base::InputError& error) {
        throw error.in(base::concat("placements/", *view.name));
      }
      if (const auto* flat = std::get_if<trace::Flat>(view.placement)) {
        range = Range{flat->ranges[position[a]].start,
                      flat->ranges[position[a]].stop - flat->ranges[position[a]].start};
      }
    }
    if (by_rows_ != nullptr) held[by_rows_->dim] = rows_at(position);
    return make_local_layout(held, range);
  }

 private:
  Ranges rows_at(const Position& position) const {
    if (!rows_) throw base::internal_error("a tensor placed by rows without its index");
    const std::uint64_t rank = rank_of(views_, mesh_, position);
    try {
      return trace::rows_from_numbers(rows_(rank), entry_.shape[by_rows_->dim]);
    } catch (const base::InputError& error) {
      throw error.in(base::concat(by_rows_->index, ": rank ", rank));
    }
  }

  const trace::TensorEntry& entry_;
  const trace::Mesh& mesh_;
  const std::vector<AxisView>& views_;
  const RowNumbers& rows_;
  const trace::Rows* by_rows_;
};

// Whether `holds` is true of the numbers of all dimensions but `dim`.
template <typename Holds>
bool all_but(std::uint64_t dim, const tensor::Shape& numbers, Holds holds) {
  for (std::size_t d = 0; d < numbers.size(); ++d) {
    if (d != dim && !holds(numbers[d])) return false;
  }
  return true;
}

// Checks that the ranks have every row once: only the index says which rank has which row.
void check_rows(const std::vector<AxisView>& views, const trace::TensorEntry& entry,
                const std::vector<Block>& blocks, const std::vector<std::uint64_t>& other_cuts) {
  const trace::Rows& rows = *rows_of(views);
  struct CutAlike {
    std::vector<tensor::Box> runs;
    std::vector<std::uint64_t> ranks;
  };
  std::map<std::uint64_t, CutAlike> groups;  // blocks that the other axes cut alike
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    if (!all_but(rows.dim, blocks[b].held.shape, [](auto extent) { return extent > 0; })) continue;
    CutAlike& group = groups[other_cuts[b]];
    for (const PlacedBox& part : blocks[b].held.parts) {
      // Other dimensions may cut a row into several boxes; its first one stands for it.
      if (!all_but(rows.dim, part.local.origin, [](auto start) { return start == 0; })) continue;
      group.runs.push_back({{part.global.origin[rows.dim]}, {part.global.extent[rows.dim]}});
      group.ranks.push_back(blocks[b].terms[0].ranks[0]);
    }
  }
  for (const auto& [other, group] : groups) {
    for (const CoverageDefect& defect : coverage_defects({entry.shape[rows.dim]}, group.runs, 1)) {
      const std::uint64_t row = defect.where.origin[0];
      if (defect.owners.empty()) {
        throw base::input_error(rows.index, ": row ", row, " of dimension ", rows.dim,
                                " is held by no rank");
      }
      throw base::input_error(rows.index, ": row ", row, " of dimension ", rows.dim,
                              " is held twice, by rank ", group.ranks[defect.owners[0]],
                              " and rank ", group.ranks[defect.owners[1]]);
    }
  }
}

}  // namespace

Combination combination_of(const std::vector<AxisView>& views) {
  Combination combination;
  bool sums = false;
  for (const AxisView& view : views) {
    const auto* partial = std::get_if<trace::Partial>(view.placement);
    if (partial == nullptr) continue;
    if (partial->reduction == trace::Reduction::kMax) {
      combination.maximum = true;
    } else {
      sums = true;
    }
    if (partial->reduction == trace::Reduction::kMean) {
      combination.factor /= static_cast<double>(view.held.size());
    }
  }
  if (combination.maximum && sums) {
    throw base::input_error("placements: a maximum over one axis and a sum or mean over another ",
                            "cannot be combined");
  }
  return combination;
}

std::optional<LocalLayout> local_layout(const trace::TensorEntry& entry, const trace::Mesh& mesh,
                                        const std::vector<std::uint64_t>& coordinates,
                                        const RowNumbers& rows) {
  const std::vector<AxisView> views = axis_views(entry, mesh);
  Position position(views.size());
  for (std::size_t a = 0; a < views.size(); ++a) {
    const auto found = std::lower_bound(views[a].held.begin(), views[a].held.end(), coordinates[a]);
    if (found == views[a].held.end() || *found != coordinates[a]) return std::nullopt;
    position[a] = static_cast<std::uint64_t>(found - views[a].held.begin());
  }
  return RankLayouts(entry, mesh, views, rows).at(position);
}

Plan plan_layout(const trace::TensorEntry& entry, const trace::Mesh& mesh, const RowNumbers& rows) {
  const std::vector<AxisView> views = axis_views(entry, mesh);
  const bool by_rows = rows_of(views) != nullptr;
  Plan plan;
  plan.combination = combination_of(views);
  std::uint64_t blocks = 1;
  std::uint64_t terms = 1;
  for (const AxisView& view : views) {
    if (cuts(*view.placement)) blocks *= view.held.size();
    if (is_partial(*view.placement)) terms *= view.held.size();
  }
  plan.blocks.resize(blocks);
  std::vector<std::uint64_t> other_cuts(by_rows ? blocks : 0);
  const RankLayouts local(entry, mesh, views, rows);
  std::size_t parts = 0;
  for_each_position(views, [&](const Position& position) {
    const std::uint64_t b = linear_over(views, position, trace::cuts);
    Block& block = plan.blocks[b];
    const std::uint64_t rank = rank_of(views, mesh, position);
    if (block.terms.empty()) {
      block.held = local.at(position);
      parts += block.held.parts.size();
      // The rows of an index were read, and are as many as the ranks have.
      if (parts > kMostBoxes && !by_rows) {
        throw base::input_error("placements: the ranks would hold more than ", kMostBoxes,
                                " separate boxes");
      }
      block.terms.resize(terms);
      if (by_rows) {
        other_cuts[b] = linear_over(views, position, [](const trace::Placement& placement) {
          return cuts(placement) && !std::holds_alternative<trace::Rows>(placement);
        });
      }
    } else if (by_rows && local.at(position) != block.held) {
      throw base::input_error(rows_of(views)->index, ": ranks ", block.terms[0].ranks[0], " and ",
                              rank, " should hold the same rows, but their indices differ");
    }
    block.terms[linear_over(views, position, is_partial)].ranks.push_back(rank);
  });
  if (by_rows) check_rows(views, entry, plan.blocks, other_cuts);
  std::erase_if(plan.blocks, [](const Block& block) { return block.held.parts.empty(); });
  return plan;
}

}  // namespace ttrace::layout
