#include "report/json/read_findings.h"

#include <map>
#include <set>
#include <string>

#include "report/page/read_parts.h"

namespace ttrace::report {

std::vector<ReadFinding> read_findings(const base::JsonCursor& root) {
  using base::JsonCursor;
  std::vector<ReadFinding> read;
  const auto frontier = root.find("frontier");
  const std::vector<JsonCursor> items = (frontier ? *frontier : root.require("findings")).items();
  std::map<std::string, JsonCursor> groups;
  std::map<std::string, JsonCursor> by_id;
  if (frontier) {
    for (const JsonCursor& group : root.require("groups").items()) {
      groups.emplace(group.require("id").as_string(), group);
    }
    for (const JsonCursor& item : items) by_id.emplace(item.require("id").as_string(), item);
  }
  std::set<std::string> done;
  for (const JsonCursor& item : items) {
    const auto group = groups.find(frontier ? text_at(item, "group") : "");
    if (group == groups.end()) {
      read.push_back({item, std::nullopt});
    } else if (done.insert(group->first).second) {
      const auto shown = by_id.find(group->second.require("shown").as_string());
      read.push_back({shown == by_id.end() ? item : shown->second, group->second});
    }
  }
  return read;
}

}  // namespace ttrace::report
