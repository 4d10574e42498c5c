// Parts of reports that several commands have in common.
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
// The number, also where it is a string: "inf", "nan".
double number_from(const base::JsonCursor& cursor);
// The member as number, with those that are strings ("inf"); nothing where it is absent or null.
std::optional<double> number_at(const base::JsonCursor& object, std::string_view name);
std::vector<std::uint64_t> counts_at(const base::JsonCursor& object, std::string_view name);
std::vector<std::string> strings_at(const base::JsonCursor& object, std::string_view name);

// "8 × 16"; "a number" of no dimension.
std::string shape_text(const std::vector<std::uint64_t>& shape);
// "0, 1 and 7".
std::string ranks_text(const std::vector<std::uint64_t>& ranks);
// "below noise floor" of "below_noise_floor".
std::string words(std::string text);
// "DIVERGED".
std::string capitals(std::string text);
// An argument as a shell takes it.
std::string shell_word(const std::string& text);

void add_run(const base::JsonCursor& root, std::string_view role, PageAnswer& answer);
void add_mesh(const base::JsonCursor& run, PageAnswer& answer);
void add_made_by(const base::JsonCursor& root, PageAnswer& answer);
// The reference, the candidate, and the files by which they were judged, as a command line has
// them.
std::string judged_pair_flags(const base::JsonCursor& root);
// Flags that selected something, as the end of a command line.
std::string selection_flags(const base::JsonCursor& root);

// A result of compare or audit but for its numbers.
PageTensor tensor_from(const base::JsonCursor& result);
std::vector<PageCause> causes_at(const base::JsonCursor& finding, std::string_view name);
std::vector<PageCheck> checks_at(const base::JsonCursor& holder);
// "layers.0.attn", "the gradient synchronisation over tp"; or "".
std::string place_at(const base::JsonCursor& finding);
std::vector<PageShard> shards_at(const base::JsonCursor& finding);

// What findings of audit and localize have in common: all but outcome, facts and checks.
PageFinding judged_finding(const base::JsonCursor& item);
void add_warnings(const base::JsonCursor& root, PageAnswer& answer);
// The flags of audit and localize that the command line ends with.
void add_flags_of_specification(const base::JsonCursor& root, PageAnswer& answer);

void read_compare(const base::JsonCursor& root, PageAnswer& answer);
void read_audit(const base::JsonCursor& root, PageAnswer& answer);
void read_localize(const base::JsonCursor& root, PageAnswer& answer);
void read_diff(const base::JsonCursor& root, PageAnswer& answer);
void read_trend(const base::JsonCursor& root, PageAnswer& answer);

}  // namespace ttrace::report
