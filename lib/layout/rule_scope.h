// What a rule of a rules file is about.
#pragma once

#include <optional>
#include <vector>

#include "base/strict_json.h"
#include "trace/key.h"

namespace ttrace::layout {

// The member `key` of `rule`, a string or a list of them; at least one.
std::vector<std::string> one_or_more(const base::JsonCursor& rule, std::string_view key);

// The member "kind" of `rule`, a kind or a list of them; empty (any kind) if it is absent.
std::vector<trace::Kind> kinds_of(const base::JsonCursor& rule);

bool is_of(const std::vector<trace::Kind>& kinds, trace::Kind kind);

}  // namespace ttrace::layout
