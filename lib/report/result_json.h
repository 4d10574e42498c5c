// Objects and members of the JSON report (schemas/report-v2.md). Exposes the JSON library, so only
// *_json.cpp files include it.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "comparison/result.h"
#include "localize/place.h"

namespace ttrace::report {

// Keeps members in the order in which they are added.
using json = nlohmann::ordered_json;

// The number, or one of the strings "nan", "inf", "-inf" if it is not finite.
json number(double value);

// `value` with every floating-point number in it rounded to nine significant digits.
json nine_digits(json value);

json key_json(const trace::TensorKey& key);

json trace_json(const comparison::TraceFacts& facts);

// What tells the trace from others, wherever it lies: `run_id`, `bytes`, `manifest`, `content`.
// Null for a trace without files.
json identity_json(const comparison::TraceFacts& facts);

// Where the trace lies, and when it was written.
json place_json(const comparison::TraceFacts& facts);

// The place in the code at which a finding points: `kind`, `of`.
json code_place_json(const localize::Place& place);

// Adds where in the step and the model a tensor is: `phase`, `module`, and `layer` inside one.
void add_position(const trace::TensorKey& key, json& result);

// The shards of the candidate that hold some of the difference, with their shares of its square,
// the largest first, as far as `most` ranks go; null without a difference.
json shards_json(const comparison::TensorComparison& result, std::size_t most_ranks);

json selection_json(const comparison::Selection& selection);

json causes_json(const std::vector<comparison::Cause>& causes);

json rejected_json(const std::vector<comparison::RejectedCause>& rejected);

// `value` on one line. Replaces invalid UTF-8, which a path may contain, so that a report can
// always be written.
std::string dumped(const json& value);

// Builds the text of a report member by member.
class ReportText {
 public:
  explicit ReportText(std::string_view schema);

  // Adds a member on one line, or an array with one line per item.
  void add(std::string_view name, const json& value);
  template <typename Item, typename ToJson>
  void add_lines(std::string_view name, const std::vector<Item>& items, ToJson to_json) {
    begin_lines(name);
    for (const Item& item : items) add_line(to_json(item));
    end_lines();
  }
  void add_share(const comparison::PartOfWork& part);

  std::string done() &&;

 private:
  void begin_lines(std::string_view name);
  void add_line(const json& value);
  void end_lines();

  std::string text_;
  bool any_line_ = false;
};

void add_runs(const comparison::CompareReport& report, const json& tolerance, ReportText& text);
json environment_json(const comparison::Environment& environment);
json tolerance_json(const comparison::CompareReport& report);

// The routing flips of one router.
json router_json(const comparison::RouterFlips& router);

// The member `truth` of a result: the comparison with the high-precision run.
json tensor_truth_json(const comparison::TensorTruth& truth);

// The member `truth` of the report, which must have one.
json truth_json(const comparison::CompareReport& report);

// The result of one tensor, with at most so many of the slices beyond their tolerance.
json result_json(const comparison::TensorComparison& result, std::size_t most_slices);

}  // namespace ttrace::report
