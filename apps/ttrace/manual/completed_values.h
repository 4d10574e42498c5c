// The offers of a shell where the value of a flag or an argument is expected.
#pragma once

#include <string>
#include <vector>

#include "manual/description.h"

namespace ttrace::app {

struct CompletedValue {
  bool files = false;
  std::vector<std::string> words;
};

CompletedValue completed_value(const DescribedOption& option);

// All words, with spaces between.
std::string joined_words(const CompletedValue& value);

}  // namespace ttrace::app
