// The sentence of each cause: one template, filled with what the cause found and whose it is.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "answer/finding.h"

namespace ttrace::report {

// Values that every template may name beside those of its cause:
//   whose    "the gradients of 12 of 53 parameters (layers.*.norm1.weight)"
//   members  how many these are, for "is" or "are"
//   axis, over_ranks   the mesh axis and its size, where the cause names an axis
//   place    "in the optimizer", where the sentence does not say it already
struct SentenceTemplate {
  std::string_view cause;
  // A template of base::Message. A cause whose evidence differs has several templates: the first
  // one counts that has all values outside of brackets.
  std::string_view text;
};

// All templates, alike causes next to each other.
const std::vector<SentenceTemplate>& sentence_templates();

// Returns the sentence. A cause without a template says its evidence.
std::string sentence_of(const answer::Cause& cause, const answer::CauseValues& common);

// Returns the template with its values; nothing if a value outside of brackets is not there.
std::optional<std::string> filled(std::string_view text, const answer::CauseValues& values);

}  // namespace ttrace::report
