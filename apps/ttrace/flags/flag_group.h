// How a command declares its flags. Help, manual, completions and the reference are all made from
// these declarations.
#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace ttrace::app {

inline constexpr const char* kTraces = "Traces and rules";
inline constexpr const char* kWhat = "What is judged";
inline constexpr const char* kAnswer = "The answer";
inline constexpr const char* kWork = "How the work is done";
// The last two are in the manual and offered by shells; a screen of --help has no room for them.
inline constexpr const char* kNights = "What is known, and what fails";
inline constexpr const char* kRare = "Rarely needed";
// In the order in which they are shown.
inline constexpr std::array kGroups{kTraces, kWhat, kAnswer, kWork, kNights, kRare};

// Adds flags to one group of a command.
class FlagGroup {
 public:
  FlagGroup(CLI::App& command, const char* group) : command_(command), group_(group) {}

  // `flag` names its value too, as in "-o,--output FILE". A list takes several values.
  template <typename Value>
  CLI::Option* value(const std::string& flag, Value& into, const std::string& help) const {
    return shown(command_.add_option(name_of(flag), into, help), value_of(flag));
  }

  // The same, but a function takes the value.
  CLI::Option* taken(const std::string& flag, const std::function<void(const std::string&)>& take,
                     const std::string& help) const {
    return shown(command_.add_option_function<std::string>(name_of(flag), take, help),
                 value_of(flag));
  }

  // A flag that takes one of these words.
  CLI::Option* choice(const std::string& name, std::string& into,
                      const std::vector<std::string>& words, const std::string& help) const;

  // A flag without a value: a bool, or a function to call.
  template <typename Value>
  CLI::Option* flag(const std::string& name, Value&& into, const std::string& help) const {
    return shown(command_.add_flag(name, std::forward<Value>(into), help), "");
  }

 private:
  static std::string name_of(const std::string& flag) { return flag.substr(0, flag.find(' ')); }
  static std::string value_of(const std::string& flag) { return flag.substr(flag.find(' ') + 1); }
  CLI::Option* shown(CLI::Option* option, const std::string& value) const;

  CLI::App& command_;
  const char* group_;
};

// The name of an option's value, as in "FILE" or "auto|off"; empty for a flag without a value.
std::string value_name(const CLI::Option& option);

}  // namespace ttrace::app
