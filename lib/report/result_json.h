// What the writers of the JSON report share: members that both versions have, and the objects of
// one tensor, of routing flips and of the high-precision run. For *_json.cpp files only.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "comparison/result.h"

namespace ttrace::report {

// One of the strings "nan", "inf", "-inf" where it is not finite.
nlohmann::ordered_json number(double value);

// `value` with every floating-point number in it rounded to nine significant digits.
nlohmann::ordered_json nine_digits(nlohmann::ordered_json value);

nlohmann::ordered_json key_json(const trace::TensorKey& key);

nlohmann::ordered_json trace_json(const comparison::TraceFacts& facts);

nlohmann::ordered_json causes_json(const std::vector<comparison::Cause>& causes);

// What an object of either version begins with, and its end.
class ReportText {
 public:
  explicit ReportText(std::string_view schema);

  // One line, or a line for every item of `items`.
  void add(std::string_view name, const nlohmann::ordered_json& value);
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
  void add_line(const nlohmann::ordered_json& value);
  void end_lines();

  std::string text_;
  bool any_line_ = false;
};

// Members that both versions have alike.
void add_runs(const comparison::CompareReport& report, const nlohmann::ordered_json& tolerance,
              ReportText& text);
void add_environment(const comparison::CompareReport& report, ReportText& text);
nlohmann::ordered_json tolerance_json(const comparison::CompareReport& report);

// Routing flips in the JSON report: schemas/report-v2.md.

nlohmann::ordered_json router_json(const comparison::RouterFlips& router);

// The second opinion in the JSON report: schemas/report-v2.md.

// A result's member `truth`.
nlohmann::ordered_json tensor_truth_json(const comparison::TensorTruth& truth);

// The report's. It must have one.
nlohmann::ordered_json truth_json(const comparison::CompareReport& report);

// One tensor's result in the JSON report: schemas/report-v2.md. For files that write JSON.

struct ResultStyle {
  std::string_view outcome;  // the name to write for result.outcome
  bool version_2 = true;     // with an id, and without members that say nothing or the same twice
  std::size_t most_slices = 4;  // of those beyond their tolerance
};

nlohmann::ordered_json result_json(const comparison::Result& result, const ResultStyle& style);

// What version 1 has no word for is told by the nearest: not_judged is below_noise_floor where
// numbers were compared and incomparable where not, not_recorded is skipped_by_rule. Settings and
// second suspects are left out; settings that differ are among the warnings in any version.
std::string json_text_v1(const comparison::CompareReport& report);

}  // namespace ttrace::report
