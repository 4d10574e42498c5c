#include "manual/completed_values.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "manual/completions.h"
#include "report/cause_words.h"
#include "tensor/dtype.h"
#include "trace/key.h"

namespace ttrace::app {
namespace {

constexpr std::array<std::string_view, 11> kFiles{
    "FILE", "RUN", "REF", "TRACE", "REPORT", "OLD", "PART", "NOISE", "FOLDER", "COMMAND", "NEW"};

bool is_placeholder(std::string_view word) {
  return std::all_of(word.begin(), word.end(),
                     [](unsigned char letter) { return std::isupper(letter) != 0; });
}

void add_words_of(std::string_view placeholder, CompletedValue& value) {
  if (std::find(kFiles.begin(), kFiles.end(), placeholder) != kFiles.end()) value.files = true;
  if (placeholder == "KIND") {
    for (const trace::Kind kind : trace::kAllKinds)
      value.words.emplace_back(trace::kind_name(kind));
  } else if (placeholder == "DTYPE") {
    for (const tensor::DType dtype : tensor::kAllDTypes) {
      value.words.emplace_back(tensor::dtype_name(dtype));
    }
  } else if (placeholder == "DEVICE") {
    value.words.insert(value.words.end(), {"auto", "cpu", "cuda"});
  } else if (placeholder == "WHAT") {
    for (const report::CauseWords& cause : report::cause_words()) {
      value.words.emplace_back(cause.cause);
    }
  } else if (placeholder == "SHELL") {
    for (const Shell& shell : shells()) value.words.emplace_back(shell.name);
  }
}

}  // namespace

CompletedValue completed_value(const DescribedOption& option) {
  CompletedValue value;
  std::size_t at = 0;
  while (at < option.value.size()) {
    const std::size_t end = std::min(option.value.find('|', at), option.value.size());
    const std::string word = option.value.substr(at, end - at);
    at = end + 1;
    if (is_placeholder(word)) {
      add_words_of(word, value);
    } else if (word != "NxN" && word != "I/N") {
      value.words.push_back(word);
    }
  }
  return value;
}

std::string joined_words(const CompletedValue& value) {
  std::string text;
  for (const std::string& word : value.words) text += (text.empty() ? "" : " ") + word;
  return text;
}

}  // namespace ttrace::app
