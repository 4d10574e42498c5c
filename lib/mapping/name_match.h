// The steps of `--map-starter`: which names of two traces denote the same parameters and the same
// values of modules, and the rules that map one name to the other.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "layout/map_rules.h"
#include "measure/measure.h"

namespace ttrace::mapping {

// One name to one, or one to several that are joined, or stand for the same tensor.
struct NameMatch {
  std::vector<std::string> reference;
  std::vector<std::string> candidate;
  std::vector<trace::Kind> kinds = {};  // empty: any
  std::uint64_t dim = 0;                // along which the several are joined, in their coordinates
  std::uint64_t groups = 1;
  std::vector<std::uint64_t> sizes = {};    // of the several along `dim`
  std::vector<std::size_t> transpose = {};  // of the one, before it is split or after it is joined
  std::optional<layout::Resize> trim = std::nullopt;  // of the candidate
  bool same = false;                                  // the one is every one of the several
  bool by_values = true;                              // else by shape and order alone
};

// The names that a rule of one trace may concern.
struct KnownName {
  std::string name;
  trace::Kind kind;
};

struct StarterRules {
  std::vector<layout::MapRule> reference;
  std::vector<layout::MapRule> candidate;
};

// A match whose names differ in their numbers alone becomes one rule with the others of its kind,
// unless that would concern names that none of them is about. Of a name that is the same on both
// sides there is no rule.
StarterRules rules_of(const std::vector<NameMatch>& matches,
                      const std::vector<KnownName>& reference_names,
                      const std::vector<KnownName>& candidate_names);

// Rules that would drop the names, their reasons still to be given.
std::vector<layout::MapRule> dropping_rules(const std::vector<KnownName>& unmatched,
                                            const std::vector<KnownName>& names);

struct ParameterMatches {
  std::vector<NameMatch> matches;
  // Of the reference's names that are left, those of the candidate's that may be meant.
  std::map<std::string, std::vector<std::string>> ambiguous;
};

// The parameters of both traces whose names are no name of the other side's, each side in the order
// of use.
ParameterMatches match_parameters(const std::vector<measure::TensorRef>& reference,
                                  const std::vector<measure::TensorRef>& candidate,
                                  unsigned threads);

// The values of one step and micro-batch by module, by kind, and what stands in brackets after the
// module's name.
using ModuleValues =
    std::map<std::string, std::map<std::pair<trace::Kind, std::string>, measure::TensorRef>>;

struct ValueMatches {
  std::vector<NameMatch> matches;
  // Of modules of the reference, those of the candidate that may be meant.
  std::map<std::string, std::vector<std::string>> ambiguous;
};

// `parameters`: what is known of them, those that have the same name on both sides too.
ValueMatches match_values(const ModuleValues& reference, const ModuleValues& candidate,
                          const std::vector<NameMatch>& parameters, unsigned threads);

}  // namespace ttrace::mapping
