#include "trace/placements/rows.h"

#include "base/strict_json.h"

namespace ttrace::trace {

using base::concat;
using tensor::Ranges;

bool Rows::is_spelled(const base::JsonCursor& value) { return has_member(value, kKeyword); }

Rows Rows::parse(const base::JsonCursor& value) {
  value.allow_keys({kKeyword});
  const base::JsonCursor object = value.require(kKeyword);
  object.allow_keys({"dim", "index", "labels"});
  const base::JsonCursor index = object.require("index");
  Rows rows{object.require("dim").as_count(), index.as_string()};
  if (const auto problem = name_problem(rows.index)) throw index.error(*problem);
  if (const auto labels = object.find("labels")) {
    rows.labels = labels->as_bool();
    if (!rows.labels) throw labels->error("false is said by leaving it out");
  }
  return rows;
}

std::string Rows::json() const {
  return concat("{\"rows\":{\"dim\":", dim, ",\"index\":", base::json_string(index),
                labels ? ",\"labels\":true" : "", "}}");
}

std::string Rows::describe() const { return concat("rows of dimension ", dim, " by ", index); }

std::string Rows::describe_over(const std::string& axis) const {
  return concat("rows of dimension ", dim, " dealt out over ", axis);
}

TensorKey index_key(const TensorKey& key, const std::string& name) {
  return {key.step, key.microbatch, Kind::kIndex, name, key.call, 0};
}

Ranges rows_from_numbers(const std::vector<std::int64_t>& numbers, std::uint64_t extent) {
  Ranges rows;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] >= 0 && static_cast<std::uint64_t>(numbers[i]) >= extent) {
      throw base::input_error("row ", numbers[i], " (element ", i,
                              " of the rank's index), but there are ", extent, " rows");
    }
    const bool padding = numbers[i] < 0;
    const std::uint64_t row = padding ? kPadding : static_cast<std::uint64_t>(numbers[i]);
    const bool goes_on =
        !rows.empty() &&
        (padding ? rows.back().start == kPadding
                 : rows.back().start != kPadding && rows.back().start + rows.back().length == row);
    // Not append(): there are as many ranges as the data has, which has been read.
    if (goes_on) {
      ++rows.back().length;
    } else {
      rows.push_back({row, 1});
    }
  }
  return rows;
}

}  // namespace ttrace::trace
