#include "layout/rows.h"

#include "base/error.h"

namespace ttrace::layout {

trace::TensorKey index_key(const trace::TensorKey& key, const std::string& name) {
  return {key.step, key.microbatch, trace::Kind::kIndex, name, key.call, 0};
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

}  // namespace ttrace::layout
