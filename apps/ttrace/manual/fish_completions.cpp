#include "base/text.h"
#include "manual/completed_values.h"
#include "manual/completions.h"

namespace ttrace::app {
namespace {

using base::concat;

std::string fish_quoted(std::string_view text) {
  std::string out = "'";
  for (const char byte : text) {
    if (byte == '\\' || byte == '\'') out += '\\';
    out += byte;
  }
  return out + "'";
}

// Prints the command that was typed so far, such as "ttrace report merge".
std::string fish_command(const DescribedCommand& program) {
  std::string known;
  for (const DescribedCommand* command : all_commands(program)) {
    if (command != &program) known += concat(" ", fish_quoted(command->path));
  }
  return concat(
      "function __ttrace_command\n    set -l at ttrace\n    for word in (commandline -opc)[2..-1]\n"
      "        switch \"$at $word\"\n            case",
      known, "\n                set at \"$at $word\"\n        end\n    end\n    echo $at\nend\n");
}

// The offers after the name of a flag, or for an argument.
std::string offers(const CompletedValue& value) {
  std::string text = value.files ? " -F" : "";
  if (!value.words.empty()) text += concat(" -a ", fish_quoted(joined_words(value)));
  return text;
}

}  // namespace

std::string fish_completions(const DescribedCommand& program) {
  std::string text = concat("# Made by `ttrace completions fish`.\n", fish_command(program),
                            "complete -c ttrace -f\n");
  for (const DescribedCommand* command : all_commands(program)) {
    const std::string here =
        concat("complete -c ttrace -n 'test (__ttrace_command) = \"", command->path, "\"'");
    for (const DescribedCommand& below : command->commands) {
      text += concat(here, " -a ", below.name, " -d ", fish_quoted(below.summary), "\n");
    }
    for (const DescribedOption& argument : command->arguments) {
      text +=
          concat(here, offers(completed_value(argument)), " -d ", fish_quoted(argument.help), "\n");
    }
    for (const DescribedOption& flag : command->flags) {
      text += command == &program ? "complete -c ttrace" : here;
      for (const std::string& name : flag.names) {
        text += name.starts_with("--") ? concat(" -l ", name.substr(2))
                                       : concat(" -s ", name.substr(1));
      }
      if (!flag.value.empty()) {
        const CompletedValue value = completed_value(flag);
        text += concat(value.files ? " -r" : " -x", offers(value));
      }
      text += concat(" -d ", fish_quoted(flag.help), "\n");
    }
  }
  return concat(text,
                "complete -c ttrace -s h -l help -d 'the flags of the command'\n"
                "complete -c ttrace -n 'test (__ttrace_command) = ttrace' -a help -d 'the help of "
                "a command'\n");
}

}  // namespace ttrace::app
