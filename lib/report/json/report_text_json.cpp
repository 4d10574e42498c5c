#include "report/json/report_text_json.h"

#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/text.h"

namespace ttrace::report {

std::string dumped(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

json nine_digits(json value) {
  if (value.is_number_float()) {
    return std::strtod(base::nine_digits(value.get<double>()).c_str(), nullptr);
  }
  if (value.is_structured()) {
    for (json& item : value) item = nine_digits(std::move(item));
  }
  return value;
}

ReportText::ReportText(std::string_view schema) : text_("{\n  \"schema\": " + dumped(schema)) {}

void ReportText::add(std::string_view name, const json& value) {
  text_ += base::concat(",\n  \"", name, "\": ", dumped(value));
}

void ReportText::begin_lines(std::string_view name) {
  text_ += base::concat(",\n  \"", name, "\": [");
  any_line_ = false;
}

void ReportText::add_line(const json& value) {
  text_ += any_line_ ? ",\n    " : "\n    ";
  text_ += dumped(value);
  any_line_ = true;
}

void ReportText::end_lines() { text_ += any_line_ ? "\n  ]" : "]"; }

std::string ReportText::done() && { return std::move(text_) + "\n}\n"; }

}  // namespace ttrace::report
