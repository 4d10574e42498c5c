// The text of JSON reports, written member by member. Exposes the JSON library, so only *_json.cpp
// files include it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ttrace::report {

// Keeps members in the order in which they are added.
using json = nlohmann::ordered_json;

// The number, or one of the strings "nan", "inf", "-inf" if it is not finite.
json number(double value);

// `value` with every floating-point number in it rounded to nine significant digits.
json nine_digits(json value);

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

  std::string done() &&;

 private:
  void begin_lines(std::string_view name);
  void add_line(const json& value);
  void end_lines();

  std::string text_;
  bool any_line_ = false;
};

}  // namespace ttrace::report
