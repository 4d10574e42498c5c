// A rules file as `--map-starter` writes it: rules, and the names that no rule matches.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "layout/map_rules.h"

namespace ttrace::layout {

struct MapFile {
  std::vector<MapRule> reference;
  std::vector<MapRule> candidate;
  // Names that no rule pairs, as rules that would drop them once somebody gives the reason.
  std::vector<MapRule> unmatched_reference;
  std::vector<MapRule> unmatched_candidate;
  // Names of the reference, with those of the candidate that may be meant.
  std::map<std::string, std::vector<std::string>> ambiguous;
  std::vector<std::string> notes;
};

// JSON, one rule a line, that `parse_map_rules` reads.
std::string map_file_text(const MapFile& file);

}  // namespace ttrace::layout
