// How much people are shown at once. Files in JSON have all of it.
#pragma once

#include <cstddef>

namespace ttrace::base {

struct DisplayLimits {
  // A sentence: names, and fewer where each comes with numbers.
  std::size_t names = 4;
  std::size_t few_names = 3;
  std::size_t parameters = 6;  // whose setting differs
  std::size_t unmatched = 5;   // names that one side lacks
  std::size_t place = 170;     // bytes of a sentence with its place; the first line has 200

  // A screen: its lines, and what a line lists.
  std::size_t also = 3;  // findings after the first
  std::size_t remarks = 3;
  std::size_t steps = 6;
  std::size_t bars = 6;
  std::size_t warnings = 10;  // on stderr

  // An answer that `report show` prints.
  std::size_t findings = 20;
  std::size_t notes = 6;

  // Files of other formats.
  std::size_t markdown_rows = 8;
  std::size_t markdown_items = 5;
  std::size_t markdown_characters = 300;  // of a cell, a remark or a command
  std::size_t junit_lines = 20;           // of what a case says

  // The page for a browser.
  std::size_t page_cards = 60;  // findings that have one
  std::size_t page_checks = 12;
  std::size_t page_causes = 6;
  std::size_t page_remarks = 12;
  std::size_t page_worst = 100;    // tensors
  std::size_t page_shards = 1024;  // that are drawn
  std::size_t page_members = 24;   // of a finding
  std::size_t page_before = 8;     // tensors that come before a finding
};

inline constexpr DisplayLimits kShown;

}  // namespace ttrace::base
