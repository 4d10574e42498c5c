// Rules that pair the tensors of two frameworks: new names, and views where one framework has
// several tensors and the other has one (schemas/rules-v1.md).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/strict_json.h"
#include "layout/name_pattern.h"
#include "layout/view.h"
#include "trace/key.h"

namespace ttrace::layout {

// The member `key` of `rule`, a string or a list of them; at least one.
std::vector<std::string> one_or_more(const base::JsonCursor& rule, std::string_view key);

// The member "kind" of `rule`, a kind or a list of them; empty (any kind) if it is absent.
std::vector<trace::Kind> kinds_of(const base::JsonCursor& rule);

bool is_of(const std::vector<trace::Kind>& kinds, trace::Kind kind);

struct Resize {
  std::uint64_t dim = 0;
  std::uint64_t size = 0;
};

// One tensor to one, several to one (concatenation) or one to several (split). Trimming, padding
// and transposing, in this order, happen to the one tensor: before a split, after a concatenation.
// With `same`, one tensor stands under each of several names. A rule that drops has no `to`.
struct MapRule {
  std::string pointer;  // in the file, for messages
  std::vector<NamePattern> from;
  std::vector<NamePattern> to;
  std::vector<trace::Kind> kinds;  // empty: any
  std::uint64_t dim = 0;           // of a concatenation or split
  std::uint64_t groups = 1;
  std::vector<std::uint64_t> sizes;  // of a split; empty: equal ones
  std::optional<Resize> trim;
  std::optional<Resize> pad;
  std::vector<std::size_t> transpose;  // empty: none
  bool same = false;                   // every name of `to` is the tensor itself
  std::string drop_reason;             // why the tensors are left out; empty: they are not

  bool drops() const { return !drop_reason.empty(); }
};

struct MapRules {
  std::string file;
  std::vector<MapRule> reference;
  std::vector<MapRule> candidate;
};

// Throws an input error with the JSON pointer for everything that is not as the schema says.
MapRules parse_map_rules(std::string_view text, const std::string& file);

// Why a tensor is not compared.
struct DroppedBy {
  std::size_t rule = 0;
  std::string pointer;  // of the rule, in its file
  std::string reason;
};

struct Mapped {
  std::vector<ViewPtr> tensors;  // the dropped ones too, under their own names
  std::map<trace::TensorKey, DroppedBy> dropped;
  std::vector<std::string> warnings;  // tensors left as they are because others of them are missing
};

// Applies to each of `tensors` the first rule that matches its name. Throws an input error if a
// rule matches nothing, if shapes do not allow it, or if two tensors would have one key.
Mapped apply_map(const std::vector<MapRule>& rules, const std::string& file,
                 const std::vector<ViewPtr>& tensors);

// Renames the values and parameters of the data flow by the rules. Modules whose outputs become one
// are merged; a module whose output becomes several is repeated for each.
std::vector<trace::Module> mapped_modules(const std::vector<MapRule>& rules,
                                          const std::vector<trace::Module>& modules);

// The rule that matches a name, which of its patterns, and what that captured.
struct RuleMatch {
  std::size_t rule = 0;
  std::size_t pattern = 0;
  NamePattern::Captures captures;
};

// Returns the first rule that applies to one of `kinds` and has a pattern that matches.
std::optional<RuleMatch> match_of(const std::vector<MapRule>& rules, std::string_view name,
                                  const std::vector<trace::Kind>& kinds);

}  // namespace ttrace::layout
