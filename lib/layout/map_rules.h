// Rules that pair the tensors of two frameworks: new names, and views where one framework has
// several tensors and the other has one (schemas/rules-v1.md).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strict_json.h"
#include "layout/view.h"
#include "trace/key.h"

namespace ttrace::layout {

// "model.layers.{i}.{rest...}": `{x}` stands for one or more characters without a dot, `{x...}` for
// one or more of any. Everything else is literal.
class NamePattern {
 public:
  using Captures = std::map<std::string, std::string>;

  // Throws an input error on braces that do not pair, more than 8 captures, and a capture without a
  // name of its own of letters, digits and underscores.
  explicit NamePattern(const std::string& text);

  const std::string& text() const { return text_; }
  const std::set<std::string>& captures() const { return names_; }

  // What the captures stand for if the whole of `name` matches, the earlier ones as short as
  // possible. A module's further tensors ("attn[1]", "attn[mask]") are matched as the module, and
  // what is in brackets is kept as the capture "[]".
  std::optional<Captures> match(std::string_view name) const;

  // This pattern with its captures filled in; `captures` must have all of them.
  std::string filled(const Captures& captures) const;

 private:
  struct Segment {
    std::string literal;  // if `capture` is not empty: the name of the capture
    std::string capture;
    bool dots = false;
  };

  // Segments and characters that were left when a match failed. Every way to them fails again, so
  // each is tried once.
  using Failures = std::set<std::pair<std::size_t, std::size_t>>;

  bool match_from(std::size_t segment, std::string_view rest, Captures& captures,
                  Failures& failures) const;

  std::string text_;
  std::vector<Segment> segments_;
  std::set<std::string> names_;  // of the captures
};

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

// The rule that matches a name, which of its patterns, and what that captured.
struct RuleMatch {
  std::size_t rule = 0;
  std::size_t pattern = 0;
  NamePattern::Captures captures;
};

// Returns the first rule that applies to one of `kinds` and has a pattern that matches.
std::optional<RuleMatch> match_of(const std::vector<MapRule>& rules, std::string_view name,
                                  const std::vector<trace::Kind>& kinds);

// For other files of rules: the member `key` of `rule`, a string or a list of them; at least one.
std::vector<std::string> one_or_more(const base::JsonCursor& rule, std::string_view key);

// The member "kind" of `rule`, a kind or a list of them; empty (any kind) if it is absent.
std::vector<trace::Kind> kinds_of(const base::JsonCursor& rule);

bool is_of(const std::vector<trace::Kind>& kinds, trace::Kind kind);

struct MapFile {
  std::vector<MapRule> reference;
  std::vector<MapRule> candidate;
  // Names that no rule pairs, as rules that would drop them once somebody gives the reason.
  std::vector<MapRule> unmatched_reference;
  std::vector<MapRule> unmatched_candidate;
  // Names of the reference, each with the names of the candidate that may correspond to it.
  std::map<std::string, std::vector<std::string>> ambiguous;
  std::vector<std::string> notes;
};

// A rule as JSON on one line, as a file has it in a list.
std::string map_rule_text(const MapRule& rule);

// JSON, one rule a line, that `parse_map_rules` reads.
std::string map_file_text(const MapFile& file);

}  // namespace ttrace::layout
