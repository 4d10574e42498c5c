// What the parts of the JSON report have in common. For files that write JSON, and no others.
#pragma once

#include <nlohmann/json.hpp>

#include "report/compare_report.h"

namespace ttrace::report {

// One of the strings "nan", "inf", "-inf" where it is not finite.
nlohmann::ordered_json number(double value);

// `value` with every floating-point number in it rounded to nine significant digits.
nlohmann::ordered_json nine_digits(nlohmann::ordered_json value);

nlohmann::ordered_json key_json(const trace::TensorKey& key);

nlohmann::ordered_json trace_json(const TraceFacts& facts);

nlohmann::ordered_json causes_json(const std::vector<diagnosis::Cause>& causes);

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
  void add_part(const PartOfWork& part);

  std::string done() &&;

 private:
  void begin_lines(std::string_view name);
  void add_line(const nlohmann::ordered_json& value);
  void end_lines();

  std::string text_;
  bool any_line_ = false;
};

// Members that both versions have alike.
void add_runs(const CompareReport& report, const nlohmann::ordered_json& tolerance,
              ReportText& text);
void add_environment(const CompareReport& report, ReportText& text);
nlohmann::ordered_json tolerance_json(const CompareReport& report);

}  // namespace ttrace::report
