// The commands with their arguments and flags, as they are declared. Help, manual, reference and
// completions are made from these.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ttrace::app {

// An argument or a flag.
struct DescribedOption {
  std::vector<std::string> names;  // of a flag, the short one first
  std::string value;               // "FILE", "auto|off", the name of an argument; or empty
  bool takes_many = false;
  bool required = false;
  std::string group;
  std::string help;
};

struct DescribedCommand {
  std::string name;
  std::string path;  // "ttrace report merge"
  std::string summary;
  std::vector<std::string_view> examples;
  std::vector<DescribedOption> arguments;
  std::vector<DescribedOption> flags;
  std::vector<DescribedCommand> commands;
  std::string footer;
};

DescribedCommand describe(const CLI::App& app);

// "ttrace report merge" of that command.
std::string command_path(const CLI::App* app);

// "ttrace compare [OPTIONS] REF RUN".
std::string usage_of(const DescribedCommand& command);

// "-o, --output FILE".
std::string spelled(const DescribedOption& flag);

// The command and all below it.
std::vector<const DescribedCommand*> all_commands(const DescribedCommand& command);

}  // namespace ttrace::app
