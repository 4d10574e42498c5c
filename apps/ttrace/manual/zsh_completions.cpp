#include <algorithm>

#include "base/text.h"
#include "manual/completed_values.h"
#include "manual/completions.h"

namespace ttrace::app {
namespace {

using base::concat;

// Escapes text for single quotes, so that _arguments takes no character as its own syntax.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char byte : text) {
    if (byte == '\'') {
      out += "'\\''";
      continue;
    }
    if (byte == '\\' || byte == '[' || byte == ']' || byte == ':') out += '\\';
    out += byte;
  }
  return out;
}

// ":FILE:_files", ":auto|off:(auto off)".
std::string zsh_action(const DescribedOption& option) {
  const CompletedValue value = completed_value(option);
  std::string action = value.files ? "_files" : "";
  if (!value.words.empty()) action = concat("(", joined_words(value), ")");
  if (!value.words.empty() && value.files) {
    action = concat("{compadd -- ", joined_words(value), "; _files}");
  }
  return concat(":", zsh_text(option.value), ":", action);
}

// One specification for each name of a flag, for _arguments.
std::string zsh_flag(const DescribedOption& flag) {
  std::string all;
  for (const std::string& name : flag.names) all += concat(all.empty() ? "" : " ", name);
  std::string text;
  for (const std::string& name : flag.names) {
    text += concat("    '", flag.takes_many ? "*" : concat("(", all, ")"), name);
    if (!flag.value.empty() && name.starts_with("--")) text += "=";
    text += concat("[", zsh_text(flag.help), "]");
    if (flag.takes_many) text += ":*-*";
    if (!flag.value.empty()) text += zsh_action(flag);
    text += "' \\\n";
  }
  return text;
}

std::string function_of(const DescribedCommand& command) {
  std::string name = concat("_", command.path);
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

// Completes the name of a command below this one, or leaves the words behind it to its function.
std::string zsh_commands(const DescribedCommand& command) {
  std::string text =
      "    '1: :->command' '*:: :->arguments'\n  case $state in\n    command)\n"
      "      local -a commands=(\n";
  for (const DescribedCommand& below : command.commands) {
    text += concat("        '", below.name, ":", zsh_text(below.summary), "'\n");
  }
  if (command.path == "ttrace") text += "        'help:the help of a command'\n";
  return concat(text,
                "      )\n      _describe command commands ;;\n    arguments)\n      (( "
                "$+functions[",
                function_of(command), "_$words[1]] )) && ", function_of(command),
                "_$words[1] ;;\n  esac\n");
}

std::string zsh_function(const DescribedCommand& command) {
  std::string text = concat(function_of(command),
                            "() {\n  local curcontext=$curcontext state line\n"
                            "  typeset -A opt_args\n  _arguments -C $_ttrace_flags \\\n");
  if (command.path != "ttrace") {
    for (const DescribedOption& flag : command.flags) text += zsh_flag(flag);
  }
  if (!command.commands.empty()) return concat(text, zsh_commands(command), "}\n");
  for (const DescribedOption& argument : command.arguments) {
    text += concat("    '", argument.takes_many ? "*" : "", zsh_action(argument), "' \\\n");
  }
  return concat(text, "    && return 0\n}\n");
}

}  // namespace

std::string zsh_completions(const DescribedCommand& program) {
  std::string text = "#compdef ttrace\n# Made by `ttrace completions zsh`.\n_ttrace_flags=(\n";
  for (const DescribedOption& flag : program.flags) {
    std::string flags = zsh_flag(flag);
    for (std::size_t at = 0; (at = flags.find(" \\\n", at)) != std::string::npos;)
      flags.erase(at, 2);
    text += flags;
  }
  text +=
      "    '(-h --help)-h[the flags of the command]'\n    '(-h --help)--help[the flags of the "
      "command]'\n)\n";
  for (const DescribedCommand* command : all_commands(program)) text += zsh_function(*command);
  return concat(
      text, "_ttrace_help() { _ttrace \"$@\" }\n",
      "if [ \"$funcstack[1]\" = _ttrace ]; then _ttrace \"$@\"; else compdef _ttrace ttrace; fi\n");
}

}  // namespace ttrace::app
