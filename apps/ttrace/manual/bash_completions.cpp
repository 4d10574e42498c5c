#include <map>

#include "base/text.h"
#include "manual/completed_values.h"
#include "manual/completions.h"

namespace ttrace::app {
namespace {

using base::concat;

// The script finds the command among the words, then looks at the word before the cursor: a flag
// whose value is completed, or anything else. "--flag=value" comes as three words. If this function
// offers nothing, bash offers files.
constexpr std::string_view kBashBegin = R"(# Made by `ttrace completions bash`.
_ttrace() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  local at=ttrace many='' words='' files='' flags='' word i
  if [ "$current" = = ]; then
    current=''
  elif [ "$before" = = ]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    case "$at $word" in
)";
constexpr std::string_view kBashEnd = R"(  esac
  if [ -z "$files" ]; then compopt +o default +o bashdefault 2>/dev/null; fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o bashdefault -o default -F _ttrace ttrace
)";

// "  'ttrace compare --json' | 'ttrace audit --json') files=yes ;;". A flag of the program itself
// goes with every command.
class BashCases {
 public:
  void add(const DescribedCommand& command, const std::string& word, const std::string& does) {
    std::string& patterns = patterns_[does];
    const bool everywhere = command.path == "ttrace" && word.starts_with("-");
    patterns += concat(patterns.empty() ? "" : " | ",
                       everywhere ? "*' " : concat("'", command.path, " "), word, "'");
  }

  std::string text(const char* indent) const {
    std::string all;
    for (const auto& [does, patterns] : patterns_) {
      all += concat(indent, patterns, ") ", does, " ;;\n");
    }
    return all;
  }

 private:
  std::map<std::string, std::string> patterns_;
};

std::string assigned(const CompletedValue& value) {
  return concat("words='", joined_words(value), "'", value.files ? " files=yes" : "");
}

std::string flag_names(const DescribedCommand& command) {
  std::string names;
  for (const DescribedOption& flag : command.flags) {
    for (const std::string& name : flag.names) names += concat(" ", name);
  }
  return names;
}

// The offer where an argument or a command is expected.
CompletedValue first_words(const DescribedCommand& command) {
  CompletedValue offered;
  for (const DescribedCommand& below : command.commands) offered.words.push_back(below.name);
  if (command.path == "ttrace") offered.words.emplace_back("help");
  for (const DescribedOption& argument : command.arguments) {
    const CompletedValue value = completed_value(argument);
    offered.files = offered.files || value.files;
    offered.words.insert(offered.words.end(), value.words.begin(), value.words.end());
  }
  return offered;
}

}  // namespace

std::string bash_completions(const DescribedCommand& program) {
  BashCases steps;
  BashCases values;
  for (const DescribedCommand* command : all_commands(program)) {
    for (const DescribedCommand& below : command->commands) {
      steps.add(*command, below.name, "at=\"$at $word\" many=''");
    }
    for (const DescribedOption& flag : command->flags) {
      if (flag.value.empty()) continue;
      for (const std::string& name : flag.names) {
        values.add(*command, name, assigned(completed_value(flag)));
        if (flag.takes_many) steps.add(*command, name, "many=$word");
      }
    }
  }
  std::string text =
      concat(kBashBegin, "      'ttrace help') at=ttrace many='' ;;\n", steps.text("      "),
             "      *' -'*) many='' ;;\n    esac\n  done\n"
             "  if [[ -n $many && $before != -* && $current != -* ]]; then before=$many; "
             "fi\n  case \"$at $before\" in\n",
             values.text("    "), "    *)\n      case $at in\n");
  for (const DescribedCommand* command : all_commands(program)) {
    text += concat("        '", command->path, "') ", assigned(first_words(*command)), " flags='",
                   flag_names(*command), "' ;;\n");
  }
  return concat(text, "      esac\n      case $current in -*) words=\"$flags", flag_names(program),
                " --help\" files='' ;; esac\n      ;;\n", kBashEnd);
}

}  // namespace ttrace::app
