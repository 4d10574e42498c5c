// What the outcome of a tensor says, by its name in an answer of any command.
#pragma once

#include <string_view>
#include <vector>

namespace ttrace::answer {

// All that there are, and "setting" of a finding about an optimizer's settings.
std::vector<std::string_view> all_outcomes();

// Whether a tensor with this outcome was checked; whether it was checked and is right; and whether
// it is wrong: it differs, is on one side alone, or does not follow from what it was computed from.
bool was_checked(std::string_view outcome);
bool is_right(std::string_view outcome);
bool is_wrong(std::string_view outcome);

}  // namespace ttrace::answer
