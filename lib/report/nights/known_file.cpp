#include "report/nights/known_file.h"

#include <algorithm>
#include <cctype>

#include "base/strict_json.h"
#include "base/text.h"

namespace ttrace::report {
namespace {

using base::JsonCursor;

std::string some_text(const JsonCursor& object, std::string_view name) {
  const JsonCursor found = object.require(name);
  std::string text = found.as_string();
  if (text.empty()) throw found.error("is empty");
  return text;
}

// "2026-12-31".
std::string day_of(const JsonCursor& object) {
  const JsonCursor found = object.require("expires");
  std::string day = found.as_string();
  constexpr std::string_view kForm = "dddd-dd-dd";
  bool fits = day.size() == kForm.size();
  for (std::size_t i = 0; fits && i < day.size(); ++i) {
    fits = kForm[i] == 'd' ? std::isdigit(static_cast<unsigned char>(day[i])) != 0
                           : day[i] == kForm[i];
  }
  if (fits) {
    const std::string month = day.substr(5, 2);
    const std::string date = day.substr(8, 2);
    fits = month >= "01" && month <= "12" && date >= "01" && date <= "31";
  }
  if (!fits) {
    throw found.error("\"", base::excerpt(day), "\" is no day such as \"2026-12-31\"");
  }
  return day;
}

void add_bound(const JsonCursor& bound, KnownDifference& known) {
  bound.allow_keys({"cause", "axis", "used", "ranks"});
  if (bound.find("cause")) known.cause = some_text(bound, "cause");
  if (bound.find("axis")) known.axis = some_text(bound, "axis");
  if (const auto used = bound.find("used")) {
    known.used = used->as_number();
    if (!(*known.used > 0)) throw used->error("is not above 0");
  }
  if (const auto ranks = bound.find("ranks")) known.ranks = ranks->as_counts();
  if (known.cause.empty() && !known.used) {
    throw bound.error("has neither \"cause\" nor \"used\", so it would excuse anything");
  }
}

KnownDifference known_from(const JsonCursor& item, const std::string& file) {
  item.allow_keys({"id", "pattern", "owner", "reason", "expires", "bound"});
  KnownDifference known;
  known.file = file;
  if (item.find("id")) known.id = some_text(item, "id");
  if (item.find("pattern")) known.pattern = some_text(item, "pattern");
  if (known.id.empty() == known.pattern.empty()) {
    throw item.error("needs either an \"id\" or a \"pattern\"");
  }
  known.owner = some_text(item, "owner");
  known.reason = some_text(item, "reason");
  known.expires = day_of(item);
  add_bound(item.require("bound"), known);
  return known;
}

}  // namespace

std::vector<KnownDifference> parse_known(std::string_view text, const std::string& file) {
  const base::JsonDocument document(text, file);
  const JsonCursor root = document.root();
  root.allow_keys({"schema", "known"});
  root.require("schema").require_format(kKnownSchema);
  std::vector<KnownDifference> all;
  for (const JsonCursor& item : root.require("known").items()) {
    all.push_back(known_from(item, file));
  }
  return all;
}

}  // namespace ttrace::report
