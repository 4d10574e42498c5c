#include "comparison/part_of_work.h"

#include "base/text.h"

namespace ttrace::comparison {
namespace {

using base::concat;

std::string describe_value(bool value) { return value ? "given" : "not given"; }

std::string describe_value(const std::string& value) {
  return value.empty() ? "not given" : base::printable(value);
}

std::string describe_value(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) {
    text += concat(text.empty() ? "" : ", ", value);
  }
  return describe_value(text);
}

std::string describe_value(const std::vector<std::uint64_t>& values) {
  std::vector<std::string> texts;
  for (const std::uint64_t value : values) texts.push_back(concat(value));
  return describe_value(texts);
}

template <typename Value>
std::string differing(const char* what, const Value& there, const Value& here) {
  if (there == here) return "";
  return concat(what, " is ", describe_value(there), " there and ", describe_value(here), " here");
}

}  // namespace

std::string describe_difference(const ComparisonId& there, const ComparisonId& here) {
  for (const std::string& words :
       {differing("the reference", there.reference, here.reference),
        differing("the candidate", there.candidate, here.candidate),
        differing("--noise", there.noise, here.noise),
        differing("--tolerance", there.tolerance, here.tolerance),
        differing("--layout", there.layout, here.layout), differing("--map", there.map, here.map),
        differing("--truth", there.truth, here.truth), differing("--only", there.only, here.only),
        differing("--skip", there.skip, here.skip), differing("--kind", there.kinds, here.kinds),
        differing("--step", there.steps, here.steps),
        differing("--common", there.common, here.common)}) {
    if (!words.empty()) return words;
  }
  for (std::size_t i = 0; i < there.facts.size() || i < here.facts.size(); ++i) {
    if (i >= there.facts.size() || i >= here.facts.size() ||
        there.facts[i].first != here.facts[i].first) {
      return "it was written by another version of ttrace";
    }
    const auto& [what, then] = there.facts[i];
    const std::string& now = here.facts[i].second;
    if (then != now) {
      return concat(base::printable(what), " was ", base::printable(then), " there and is ",
                    base::printable(now), " here");
    }
  }
  return "";
}

}  // namespace ttrace::comparison
