#include "installed.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "device.h"
#include "machine.h"

namespace ttrace::app {
namespace {

namespace fs = std::filesystem;

using base::concat;
using engine::Diagnosis;
using engine::Health;

// The packages that the collector reads, with the releases that its tests have run under.
struct Tried {
  const char* package;
  const char* first;
  const char* last;
};

constexpr Tried kTried[]{
    {"torch", "2.1", "2.13"},       {"megatron_core", "0.13", "0.16"},
    {"deepspeed", "0.19", "0.19"},  {"transformers", "5.23", "5.23"},
    {"accelerate", "1.15", "1.15"}, {"peft", "0.21", "0.21"},
    {"trl", "1.16", "1.16"},
};

// By name, in small letters and with "_", as folders of packages have it.
using Packages = std::map<std::string, std::string>;

// The prefix of the Python that a job started from here would use.
std::optional<fs::path> python_prefix() {
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const char* value = std::getenv(variable);
    if (value != nullptr && *value != '\0') return fs::path(value);
  }
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const fs::path folder(rest.substr(0, rest.find(':')));
    std::error_code error;
    for (const char* name : {"python", "python3"}) {
      if (fs::exists(folder / name, error)) return folder.parent_path();
    }
    const std::size_t colon = rest.find(':');
    rest.remove_prefix(colon == std::string_view::npos ? rest.size() : colon + 1);
  }
  return std::nullopt;
}

// The folders that a .pth file adds to Python's path: its lines, except those that are code.
std::vector<fs::path> folders_in(const fs::path& pth) {
  std::vector<fs::path> folders;
  std::ifstream file(pth);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#' || line.starts_with("import ")) continue;
    folders.push_back(pth.parent_path() / line);
  }
  return folders;
}

// `follow`: also looks into the folders that .pth files name, for a virtual environment on top of
// another one.
void add_packages(const fs::path& folder, bool follow, Packages& packages) {
  constexpr std::string_view kInfo = ".dist-info";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::string name = entry.path().filename().string();
    if (follow && name.ends_with(".pth")) {
      for (const fs::path& other : folders_in(entry.path())) add_packages(other, false, packages);
    }
    if (!name.ends_with(kInfo)) continue;
    name.resize(name.size() - kInfo.size());
    const std::size_t dash = name.rfind('-');
    if (dash == std::string::npos) continue;
    std::string package = name.substr(0, dash);
    std::transform(package.begin(), package.end(), package.begin(), [](unsigned char c) {
      return c == '-' || c == '.' ? '_' : static_cast<char>(std::tolower(c));
    });
    packages.emplace(std::move(package), name.substr(dash + 1));
  }
}

Packages packages_below(const fs::path& prefix) {
  Packages packages;
  std::error_code error;
  for (const fs::path& lib : {prefix / "lib", prefix / "local" / "lib"}) {
    for (const auto& entry : fs::directory_iterator(lib, error)) {
      if (!entry.path().filename().string().starts_with("python")) continue;
      add_packages(entry.path() / "site-packages", true, packages);
      add_packages(entry.path() / "dist-packages", true, packages);
    }
  }
  return packages;
}

// The first two numbers of "2.13.0+cpu".
std::pair<int, int> release_of(std::string_view version) {
  std::pair<int, int> release{0, 0};
  const char* const end = version.data() + version.size();
  const auto [dot, error] = std::from_chars(version.data(), end, release.first);
  if (error == std::errc() && dot != end && *dot == '.') {
    std::from_chars(dot + 1, end, release.second);
  }
  return release;
}

Diagnosis of_package(const Tried& tried, const std::string& version) {
  const auto release = release_of(version);
  const std::string range = release_of(tried.first) == release_of(tried.last)
                                ? std::string(tried.first)
                                : concat(tried.first, " to ", tried.last);
  if (release < release_of(tried.first)) {
    return {tried.package, Health::kNote,
            concat(version, ", older than what was tried (", range, ")")};
  }
  if (release > release_of(tried.last)) {
    return {
        tried.package, Health::kNote,
        concat(version, ", newer than what was tried (", range,
               "); `python -m ttrace_torch.private_names` says what the collector lacks in it")};
  }
  return {tried.package, Health::kFine, concat(version, ", among those tried (", range, ")")};
}

Diagnosis of_collector(const Packages& packages, const fs::path& prefix) {
  const auto collector = packages.find("ttrace_torch");
  if (collector == packages.end()) {
    return {"collector", Health::kNote,
            concat("ttrace-torch is not installed below ", prefix.string(),
                   "; jobs that are to be traced need it there")};
  }
  for (const char* needed : {"h5py", "numpy"}) {
    if (packages.contains(needed)) continue;
    return {
        "collector", Health::kWrong,
        concat("ttrace-torch ", collector->second, " lacks ", needed, ": pip install ", needed)};
  }
  // A build from a checkout adds its commit: "0.1.0+412.g1a2b3c4".
  if (collector->second.substr(0, collector->second.find('+')) != version()) {
    return {"collector", Health::kNote,
            concat("ttrace-torch ", collector->second, ", and this program is ", version(),
                   "; install one release of both")};
  }
  return {"collector", Health::kFine,
          concat("ttrace-torch ", collector->second, " below ", prefix.string())};
}

}  // namespace

std::vector<Diagnosis> examine_installation() {
  std::vector<Diagnosis> all{
      {"program", Health::kFine, concat("ttrace ", version(), ", ", instruction_sets())},
      {"gpu", Health::kFine, concat("cpu, and for --device cuda: ", describe_cuda_module())}};
  std::optional<fs::path> prefix = python_prefix();
  Packages packages = prefix ? packages_below(*prefix) : Packages{};
  if (!packages.contains("ttrace_torch")) {
    // pip puts this program beside the collector, in an environment that need not be activated.
    std::error_code error;
    const fs::path own = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
    if (Packages beside = packages_below(own); beside.contains("ttrace_torch")) {
      prefix = own;
      packages = std::move(beside);
    }
  }
  if (!prefix) {
    all.push_back({"python", Health::kNote, "none is on PATH; traces of other machines need none"});
    return all;
  }
  all.push_back(of_collector(packages, *prefix));
  for (const Tried& tried : kTried) {
    const auto found = packages.find(tried.package);
    if (found != packages.end()) all.push_back(of_package(tried, found->second));
  }
  if (!packages.contains("torch")) {
    all.push_back({"torch", Health::kNote,
                   concat("not installed below ", prefix->string(), "; comparing needs none")});
  }
  return all;
}

}  // namespace ttrace::app
