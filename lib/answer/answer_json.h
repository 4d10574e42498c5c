// Answers as JSON (schemas/answer-v1.md): the text follows from the description in members.h.
#pragma once

#include <string>
#include <string_view>

#include "answer/answer.h"
#include "base/strict_json.h"

namespace ttrace::answer {

inline constexpr std::string_view kAnswerSchema = "ttrace.answer/1";

// Tensors and findings have a line each. Numbers have nine digits; those that are not finite are
// the texts "nan", "inf" and "-inf". What is not UTF-8, as a path may be, is replaced.
std::string json_of(const Answer& answer);

// Throws an input error that names `file` and the place in it if the text is no answer of this
// schema, or lacks a member that an answer always has. Members that are not known are passed over.
Answer read_answer(std::string_view text, const std::string& file);
// The same of a text that has been parsed.
Answer read_answer(const base::JsonCursor& root);

}  // namespace ttrace::answer
