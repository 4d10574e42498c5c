// Words that the faces of an answer have in common, and readers of what compares answers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/strict_json.h"
#include "report/page/page_answer.h"

namespace ttrace::report {

// The member as text, or "" where it is absent or null.
std::string text_at(const base::JsonCursor& object, std::string_view name);
// "8 × 16"; "a number" of no dimension.
std::string shape_text(const tensor::Shape& shape);
// "0, 1 and 7".
std::string ranks_text(const std::vector<std::uint64_t>& ranks);
// "below noise floor" of "below_noise_floor".
std::string words(std::string text);
// "DIVERGED".
std::string capitals(std::string text);
// An argument as a shell takes it.
std::string shell_word(const std::string& text);

void read_diff(const base::JsonCursor& root, PageAnswer& answer);
void read_trend(const base::JsonCursor& root, PageAnswer& answer);

}  // namespace ttrace::report
