#include "base/names.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <set>
#include <utility>

#include "base/text.h"

namespace ttrace::base {
namespace {

constexpr std::size_t kLongest = 512;

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

std::string without_stars(std::string_view pattern) {
  std::string plain;
  std::copy_if(pattern.begin(), pattern.end(), std::back_inserter(plain),
               [](char c) { return c != '*' && c != '?'; });
  return plain;
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view text) {
  constexpr std::size_t kNone = std::string_view::npos;
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = kNone;
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != kNone) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<std::string> nearest_names(std::string_view wanted,
                                       const std::vector<std::string>& candidates,
                                       std::size_t count) {
  const std::string plain = without_stars(wanted);
  std::vector<std::pair<std::size_t, const std::string*>> ranked;
  std::set<std::string_view> seen;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongest || plain.size() > kLongest) continue;
    if (!seen.insert(candidate).second) continue;
    const bool contains = !plain.empty() && candidate.find(plain) != std::string::npos;
    ranked.emplace_back(contains ? 0 : edit_distance(plain, candidate), &candidate);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < ranked.size() && i < count; ++i) names.push_back(*ranked[i].second);
  return names;
}

std::string did_you_mean(std::string_view wanted, const std::vector<std::string>& candidates) {
  const std::vector<std::string> names = nearest_names(wanted, candidates, 1);
  if (names.empty() || wanted.size() > kLongest) return "";
  // A word with more than half of its letters wrong is a different word.
  const std::size_t letters = std::max(wanted.size(), names[0].size());
  const bool alike =
      names[0].find(wanted) != std::string::npos || 2 * edit_distance(wanted, names[0]) <= letters;
  return alike ? concat("; did you mean \"", names[0], "\"?") : "";
}

std::string nearest_hint(std::string_view wanted, const std::vector<std::string>& candidates) {
  const std::vector<std::string> names = nearest_names(wanted, candidates);
  if (names.empty()) return "";
  if (names.size() == 1) return concat("; the nearest name is ", names[0]);
  std::string hint = "; the nearest names are ";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) hint += i + 1 == names.size() ? " and " : ", ";
    hint += names[i];
  }
  return hint;
}

}  // namespace ttrace::base
