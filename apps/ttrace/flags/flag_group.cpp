#include "flags/flag_group.h"

namespace ttrace::app {

CLI::Option* FlagGroup::choice(const std::string& name, std::string& into,
                               const std::vector<std::string>& words,
                               const std::string& help) const {
  std::string value;
  for (const std::string& word : words) value += (value.empty() ? "" : "|") + word;
  return shown(command_.add_option(name, into, help)->check(CLI::IsMember(words)), value);
}

CLI::Option* FlagGroup::shown(CLI::Option* option, const std::string& value) const {
  return option->group(group_)->type_name(value);
}

std::string value_name(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(':'));  // without the text that the parser's checks add
}

}  // namespace ttrace::app
