#include "report/first_line.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/text.h"
#include "report/terminal_text.h"

namespace ttrace::report {
namespace {

using base::concat;

constexpr const char* kJoin = "; ";

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U; }

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !continues_character(c); }));
}

// Returns the position of the n-th character of `text`.
std::size_t position_of(std::string_view text, std::size_t n) {
  std::size_t at = 0;
  for (std::size_t seen = 0; at < text.size(); ++at) {
    if (!continues_character(text[at]) && seen++ == n) break;
  }
  return at;
}

// Returns `text` with at most `most` characters: with "…" in the place of its middle.
std::string without_middle(std::string_view text, std::size_t most) {
  const std::size_t all = characters(text);
  if (all <= most) return std::string(text);
  const std::size_t begin = (most - 1) / 2;
  const std::size_t end = most - 1 - begin;
  return concat(text.substr(0, position_of(text, begin)), "…",
                text.substr(position_of(text, all - end)));
}

std::string text_of(const Clause& clause, bool in_short) {
  if (!in_short || clause.in_short.empty()) return base::render(clause.message);
  return base::render({clause.in_short, clause.message.values});
}

// Counts what the clauses from `first` on are about; nothing where there are none.
std::string describe_rest(const std::vector<Clause>& clauses, std::size_t first) {
  if (first >= clauses.size()) return "";
  std::uint64_t unchecked = 0;
  for (std::size_t i = first; i < clauses.size(); ++i) {
    unchecked += clauses[i].weight == Clause::Weight::kUnchecked ? clauses[i].tensors : 0;
  }
  const std::size_t left = clauses.size() - first;
  const char* const and_more = first > 0 ? "more " : "";
  return concat(kJoin, first > 0 ? "and " : "",
                unchecked > 0 ? concat(unchecked, " ", and_more, "not checked")
                              : concat(left, " ", and_more, left == 1 ? "remark" : "remarks"));
}

// The first `count` clauses and what the others are about.
std::string joined(const std::vector<Clause>& clauses, std::size_t count, bool in_short) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += concat(kJoin, text_of(clauses[i], in_short));
  return text + describe_rest(clauses, count);
}

// What follows the sentence, and how many clauses are written in it.
struct Rest {
  std::string text;
  std::size_t written = 0;
};

// The aside and the clauses as they fit into `room` characters: all clauses rather than the aside,
// and the aside rather than long clauses. Where even the number of what was not checked has no
// place, so that the sentence is cut in any case, a first clause about that stays.
Rest fitted(const FirstLine& line, std::size_t room) {
  const std::size_t all = line.clauses.size();
  const std::string whole = joined(line.clauses, all, false);
  const std::string in_short = joined(line.clauses, all, true);
  for (const std::string& text : {line.aside + whole, line.aside + in_short, whole, in_short}) {
    if (characters(text) <= room) return {text, all};
  }
  for (std::size_t count = all; count > 0;) {
    std::string text = joined(line.clauses, --count, true);
    if (characters(text) <= room) return {std::move(text), count};
  }
  const bool must_stay = line.clauses.front().weight == Clause::Weight::kUnchecked;
  return {must_stay ? joined(line.clauses, 1, true) : "", must_stay ? 1U : 0U};
}

}  // namespace

WrittenFirstLine write_first_line(const FirstLine& line, const TextStyle& style) {
  const std::size_t room = kFirstLineColumns - characters(line.verdict) - 2;
  const std::size_t taken = characters(line.sentence);
  Rest rest;
  if (!line.clauses.empty() || taken + characters(line.aside) <= room) {
    rest = fitted(line, room > taken ? room - taken : 0);
  }
  for (const std::string& closing : line.closing) {
    const std::string more = concat(kJoin, closing);
    if (taken + characters(rest.text) + characters(more) > room) continue;
    rest.text += more;
    break;
  }
  // A sentence keeps a word or two, whatever the clause is.
  constexpr std::size_t kShortest = 40;
  const std::size_t of_rest = characters(rest.text);
  const std::size_t left = std::max(kShortest, room > of_rest ? room - of_rest : 0);
  WrittenFirstLine out;
  out.is_cut = taken > left;
  out.text = concat(bold(line.verdict, line.colour, style), "  ",
                    without_middle(line.sentence, left), rest.text);
  // A clause that lost the end of what it says is written in full below.
  for (std::size_t i = 0; i < line.clauses.size(); ++i) {
    const std::string in_short = text_of(line.clauses[i], true);
    const bool cut = in_short != text_of(line.clauses[i], false) &&
                     in_short.find("…") != std::string::npos &&
                     rest.text.find(in_short) != std::string::npos;
    if (i >= rest.written || cut) out.left_out.push_back(line.clauses[i]);
  }
  return out;
}

}  // namespace ttrace::report
