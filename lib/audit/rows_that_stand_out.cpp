#include "audit/rows_that_stand_out.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/message.h"
#include "base/text.h"
#include "layout/view.h"
#include "measure/tensor_reader.h"
#include "specification/describe.h"

namespace ttrace::audit {
namespace {

// "512 to 1023, 1500" of ascending numbers.
std::string describe_ranges(const std::vector<std::uint64_t>& numbers) {
  constexpr std::size_t kMostRanges = 6;
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    ranges.push_back(last == i ? std::to_string(numbers[i])
                               : base::concat(numbers[i], " to ", numbers[last]));
    i = last + 1;
  }
  return specification::list_some(ranges, kMostRanges, ", ");
}

std::string describe_rows(const specification::ExpressionJudgement& judged,
                          std::uint64_t all_rows) {
  if (judged.rows_beyond >= all_rows)
    return base::render({"all {rows} rows", {{"rows", all_rows}}});
  std::map<tensor::Shape, std::vector<std::uint64_t>> last;  // by the leading indices
  for (const specification::RowError& row : judged.rows) {
    if (row.row.empty()) continue;
    last[tensor::Shape(row.row.begin(), row.row.end() - 1)].push_back(row.row.back());
  }
  std::vector<std::string> groups;
  for (auto& [leading, numbers] : last) {
    std::sort(numbers.begin(), numbers.end());
    const std::string ranges = describe_ranges(numbers);
    std::string prefix;
    for (const std::uint64_t index : leading) prefix += base::concat(index, ", ");
    groups.push_back(leading.empty() ? ranges : base::concat("[", prefix, ranges, "]"));
  }
  return base::render({"{beyond} of {all:row}: {which}",
                       {{"beyond", judged.rows_beyond},
                        {"all", all_rows},
                        {"which", specification::list_some(groups, 4, "; ")}}});
}

// The ranks that hold the rows that stand out; empty if every rank holds some.
std::vector<std::uint64_t> ranks_of(const trace::Source& run,
                                    const specification::ExpressionJudgement& judged,
                                    const trace::TensorEntry& entry) {
  const layout::ViewPtr view = layout::view_of(entry);
  const auto reader = measure::make_reader(run, *view, measure::Replicas::kFirstOnly);
  std::set<std::uint64_t> holding;
  std::set<std::uint64_t> all;
  for (const measure::RankBoxes& boxes : reader->rank_boxes()) {
    all.insert(boxes.ranks.begin(), boxes.ranks.end());
    const bool holds = std::any_of(
        judged.rows.begin(), judged.rows.end(), [&](const specification::RowError& row) {
          tensor::Box box{row.row, tensor::Shape(row.row.size(), 1)};
          box.origin.push_back(0);
          box.extent.push_back(entry.shape.back());
          return std::any_of(boxes.boxes.begin(), boxes.boxes.end(), [&](const tensor::Box& one) {
            return tensor::intersect(one, box).has_value();
          });
        });
    if (holds) holding.insert(boxes.ranks.begin(), boxes.ranks.end());
  }
  if (holding == all) return {};
  return {holding.begin(), holding.end()};
}

}  // namespace

void name_rows(const trace::Source& run, const specification::ExpressionJudgement& judged,
               const trace::TensorEntry& entry, AuditCheck& check) {
  if (judged.rows_beyond == 0 || entry.shape.empty()) return;
  std::uint64_t all_rows = 1;
  for (std::size_t d = 0; d + 1 < entry.shape.size(); ++d) all_rows *= entry.shape[d];
  check.rows = describe_rows(judged, all_rows);
  if (judged.rows_beyond < all_rows) check.ranks = ranks_of(run, judged, entry);
}

}  // namespace ttrace::audit
