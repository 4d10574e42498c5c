#include "layout/name_pattern.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "trace/key.h"

namespace ttrace::layout {
namespace {

constexpr std::size_t kMostCaptures = 8;
constexpr std::string_view kAnything = "...";
constexpr const char* kValue = "[]";

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

NamePattern::NamePattern(const std::string& text) : text_(text) {
  const auto refuse = [&text](const auto&... why) {
    return base::input_error("the pattern ", base::printable(text), " ", why...);
  };
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t open = text.find_first_of("{}", at);
    if (open != at) {
      pieces_.push_back({text.substr(at, open == std::string::npos ? open : open - at), "", false});
      if (open == std::string::npos) break;
    }
    const std::size_t close = text.find_first_of("{}", open + 1);
    if (text[open] == '}' || close == std::string::npos || text[close] == '{') {
      throw refuse("has a brace without its partner");
    }
    std::string name = text.substr(open + 1, close - open - 1);
    const bool dots = name.ends_with(kAnything);
    if (dots) name.resize(name.size() - kAnything.size());
    if (name.empty() || !std::all_of(name.begin(), name.end(), is_word)) {
      throw refuse("has a capture whose name is not of letters, digits and underscores");
    }
    if (std::find(names_.begin(), names_.end(), name) != names_.end()) {
      throw refuse("has two captures {", base::printable(name), "}");
    }
    names_.push_back(name);
    pieces_.push_back({"", std::move(name), dots});
    at = close + 1;
  }
  if (names_.size() > kMostCaptures) throw refuse("has more than ", kMostCaptures, " captures");
  if (pieces_.empty()) throw base::input_error("an empty pattern");
}

bool NamePattern::match_from(std::size_t piece, std::string_view rest, Captures& captures,
                             Failures& failures) const {
  if (piece == pieces_.size()) return rest.empty();
  if (failures.contains({piece, rest.size()})) return false;
  const Piece& here = pieces_[piece];
  if (here.capture.empty()) {
    return rest.starts_with(here.literal) &&
           match_from(piece + 1, rest.substr(here.literal.size()), captures, failures);
  }
  for (std::size_t length = 1; length <= rest.size(); ++length) {
    if (!here.dots && rest[length - 1] == '.') break;
    if (match_from(piece + 1, rest.substr(length), captures, failures)) {
      captures[here.capture] = rest.substr(0, length);
      return true;
    }
  }
  failures.emplace(piece, rest.size());
  return false;
}

std::optional<NamePattern::Captures> NamePattern::match(std::string_view name) const {
  const auto matched = [this](std::string_view text) -> std::optional<Captures> {
    Captures captures;
    Failures failures;
    if (!match_from(0, text, captures, failures)) return std::nullopt;
    return captures;
  };
  const std::string_view module = trace::module_of_value(name);
  if (module.size() < name.size()) {
    if (auto captures = matched(module)) {
      captures->emplace(kValue, name.substr(module.size()));
      return captures;
    }
  }
  return matched(name);
}

std::string NamePattern::filled(const Captures& captures) const {
  std::string name;
  for (const Piece& piece : pieces_) {
    name += piece.capture.empty() ? piece.literal : captures.at(piece.capture);
  }
  const auto value = captures.find(kValue);
  return value == captures.end() ? name : name + value->second;
}

}  // namespace ttrace::layout
