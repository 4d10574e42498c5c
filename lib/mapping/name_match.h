// Matches of names of two traces, and the rules that they make.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "layout/map_rules.h"

namespace ttrace::mapping {

// Names that denote the same data: one on each side, or one on one side and several on the other,
// which are joined or all denote the same tensor.
struct NameMatch {
  std::vector<std::string> reference;
  std::vector<std::string> candidate;
  std::vector<trace::Kind> kinds = {};  // empty: any
  std::uint64_t dim = 0;                // the dimension of the several along which they are joined
  std::uint64_t groups = 1;
  std::vector<std::uint64_t> sizes = {};  // extents of the several along `dim`
  std::vector<std::size_t> transpose =
      {};                 // of the single one, before it is split or after it is joined
  bool same = false;      // the single one equals each of the several
  bool by_values = true;  // else by shape and order only
};

// A name of one trace, to which a rule could apply.
struct KnownName {
  std::string name;
  trace::Kind kind;
};

struct StarterRules {
  std::vector<layout::MapRule> reference;
  std::vector<layout::MapRule> candidate;
};

// Turns matches into rules. Matches whose names differ only in numbers become one rule with a
// pattern, unless the pattern would match other names too. A name that is the same on both sides
// needs no rule.
StarterRules rules_of(const std::vector<NameMatch>& matches,
                      const std::vector<KnownName>& reference_names,
                      const std::vector<KnownName>& candidate_names);

// Returns rules that drop the names of `unmatched`; the user has to add the reasons.
std::vector<layout::MapRule> dropping_rules(const std::vector<KnownName>& unmatched,
                                            const std::vector<KnownName>& names);

}  // namespace ttrace::mapping
