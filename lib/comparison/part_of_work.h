// The report of a comparison that was divided among several processes: which share it is, and what
// the merge of all shares needs of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ttrace::comparison {

// Which of how many shares of the tensors a process measures: 1 of 8 to 8 of 8.
struct PartNumber {
  std::uint64_t index = 1;
  std::uint64_t of = 1;
};

// What was asked for and what the files were then. Two of the same comparison are equal; whoever
// measured for one may be believed in the other.
struct ComparisonId {
  std::string reference;  // paths as given; empty: none was
  std::string candidate;
  std::vector<std::string> noise;
  std::string tolerance;
  std::string layout;
  std::string map;
  std::string truth;
  std::vector<std::string> only;
  std::vector<std::string> skip;
  std::vector<std::string> kinds;
  std::vector<std::uint64_t> steps;
  bool common = false;
  // What a fact is about ("the files of ref.h5") and what it is ("1 file, 3 bytes, ...").
  std::vector<std::pair<std::string, std::string>> facts;
};

// "the candidate is a/ there and b/ here", or nothing if they are the same.
std::string describe_difference(const ComparisonId& there, const ComparisonId& here);

// The member "part" of a report.
struct PartOfWork {
  PartNumber number;
  bool interrupted = false;
  ComparisonId comparison;
  std::vector<std::string> measurements;  // lines that the engine understands
};

}  // namespace ttrace::comparison
