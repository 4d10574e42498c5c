#include "mpi_ranks.h"

#include <dlfcn.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "machine.h"

namespace ttrace::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModule = "ttrace_mpi.so";

std::optional<std::uint64_t> number_of(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr) return std::nullopt;
  const std::string_view text(value);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The path of the module: beside the program in a build folder, under lib/ if installed; or empty.
fs::path module_path() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& path : {folder / kModule, folder.parent_path() / "lib" / kModule}) {
    if (!error && fs::exists(path, error)) return path;
  }
  return {};
}

template <typename Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

void keep(void* context, int, const char* text, unsigned long long bytes) {
  static_cast<std::vector<std::string>*>(context)->emplace_back(text, bytes);
}

}  // namespace

std::optional<MpiRank> mpi_rank() {
  constexpr std::array<std::array<const char*, 2>, 2> kLaunchers{
      {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}}};
  for (const auto& [rank_name, size_name] : kLaunchers) {
    const auto rank = number_of(rank_name);
    const auto size = number_of(size_name);
    if (rank && size && *size > 1 && *rank < *size) return MpiRank{*rank, *size};
  }
  return std::nullopt;
}

std::string describe_mpi_module() {
  return module_path().empty() ? "no module (it is built where CMake finds MPI)" : kModule;
}

MpiModule::MpiModule() {
  const fs::path path = module_path();
  if (path.empty()) {
    throw base::input_error("started by mpirun, but this build has no MPI module (", kModule,
                            "); build it where CMake finds MPI, or use --part and `ttrace report "
                            "merge`, or --mpi off to be one process");
  }
  // RTLD_GLOBAL, because the plug-ins of MPI need its symbols.
  library_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library_ == nullptr) {
    throw base::input_error(path.string(), ": cannot be loaded: ", ::dlerror());
  }
  auto* const built = symbol<decltype(ttrace_mpi_version)>(library_, "ttrace_mpi_version");
  if (built == nullptr || built() != version()) {
    throw base::input_error(path.string(), ": is not of this version of ttrace; build it again");
  }
}

std::vector<std::string> MpiModule::gathered(const std::string& mine) const {
  std::vector<std::string> texts;
  std::string error(1024, '\0');
  auto* const gather = symbol<decltype(ttrace_mpi_gather)>(library_, "ttrace_mpi_gather");
  if (gather(mine.data(), mine.size(), keep, &texts, error.data(), error.size()) != 0) {
    throw base::input_error("MPI failed while ", error.c_str());
  }
  return texts;
}

}  // namespace ttrace::app
