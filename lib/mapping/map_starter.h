// Drafts a rules file for two traces of two implementations of one model (`ttrace compare
// --map-starter`).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "layout/map_rules.h"
#include "measure/measure.h"
#include "trace/source.h"

namespace ttrace::mapping {

// Returns rules that map the candidate's names to the reference's, found by values, shapes and
// order, and the names they leave unmatched. A draft for a person to check: parameters that were
// exchanged by mistake are matched as they are, with a note. Reads the parameters of one step, and
// the values of one micro-batch for modules without parameters. Does not depend on the number of
// threads.
layout::MapFile start_map(const trace::Source& reference, const trace::Source& candidate,
                          unsigned threads);

// Its steps: match_parameters() and match_values() find names of two traces that denote the same
// tensors, and rules_of() turns matches into rules.

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
      {};  // of the single one, before it is split or after it is joined
  std::optional<layout::Resize> trim = std::nullopt;  // of the candidate
  bool trims_reference = false;                       // `trim` is of the reference instead
  bool same = false;                                  // the single one equals each of the several
  bool by_values = true;                              // else by shape and order only
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

struct ParameterMatches {
  std::vector<NameMatch> matches;
  // For unmatched names of the reference, the names of the candidate that could match.
  std::map<std::string, std::vector<std::string>> ambiguous;
};

// Matches parameters: by their values, also if they are joined, interleaved in groups or
// transposed, then by shape and order. Each side has the parameters whose names the other side
// lacks, in the order of use.
ParameterMatches match_parameters(const std::vector<measure::TensorRef>& reference,
                                  const std::vector<measure::TensorRef>& candidate,
                                  unsigned threads);

// The values of one step and micro-batch: by module, then by kind and the text in brackets after
// the module's name.
using ModuleValues =
    std::map<std::string, std::map<std::pair<trace::Kind, std::string>, measure::TensorRef>>;

struct ValueMatches {
  std::vector<NameMatch> matches;
  // For unmatched modules of the reference, the modules of the candidate that could match.
  std::map<std::string, std::vector<std::string>> ambiguous;
};

// Matches the values of modules (inputs, outputs and their gradients): of modules with the same
// parameters, then of containers of the same modules, then by values. `parameters`: all known
// matches, including parameters with the same name on both sides.
ValueMatches match_values(const ModuleValues& reference, const ModuleValues& candidate,
                          const std::vector<NameMatch>& parameters, unsigned threads);

}  // namespace ttrace::mapping
