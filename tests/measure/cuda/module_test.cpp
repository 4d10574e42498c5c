// Opening the CUDA module: what does not belong to this program is refused with the reason.
#include "measure/cuda/module.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/catch.h"

namespace ttrace::measure::cuda::module_test {
namespace {

namespace fs = std::filesystem;

std::string fake(const std::string& name) {
  return std::string(TTRACE_FAKE_MODULES) + "/fake_cuda_" + name + ".so";
}

std::string reason_of(const std::string& path) {
  const OpenModule module = open_module(path);
  CHECK(module.api == nullptr);
  CHECK(module.problem.find('\n') == std::string::npos);
  CHECK(module.problem.substr(0, path.size()) == path);
  return module.problem.substr(path.size());
}

TEST_CASE("a module of another interface is refused", "[cuda]") {
  CHECK(reason_of(fake("interface")) ==
        " has version 2 of the interface, this ttrace needs 1; build it again together with "
        "ttrace");
}

TEST_CASE("a module of another build is refused", "[cuda]") {
  const std::string reason = reason_of(fake("build"));
  CHECK(reason.find(" is of another build (0123456789abcdef, this ttrace is ") == 0);
}

TEST_CASE("a module without one of the functions is refused", "[cuda]") {
  CHECK(reason_of(fake("symbol")) ==
        " is no CUDA module of ttrace: it has no function ttrace_cuda_build_id");
}

TEST_CASE("a file that is no module, or is not there, is refused", "[cuda]") {
  const fs::path text = fs::temp_directory_path() / "ttrace_no_module.so";
  std::ofstream(text) << "not a library\n";
  CHECK(reason_of(text.string()).find(" cannot be loaded: ") == 0);
  fs::remove(text);
  CHECK(reason_of(text.string()).find(" cannot be loaded: ") == 0);
}

TEST_CASE("a module of this build is used, and its devices are listed", "[cuda]") {
  const OpenModule module = open_module(fake("host"));
  REQUIRE(module.api != nullptr);
  CHECK(module.problem.empty());
  const FoundDevices found = find_devices(*module.api);
  CHECK(found.problem.empty());
  CHECK(describe_devices(found.devices) ==
        "cuda:0 host 0 (sm_90, 1.1 GB), cuda:1 host 1 (sm_90, 1.1 GB)");
}

TEST_CASE("the variable names the module", "[cuda]") {
  ::setenv(kModuleVariable, "/somewhere/else.so", 1);
  CHECK(module_path() == "/somewhere/else.so");
  ::unsetenv(kModuleVariable);
}

#ifdef TTRACE_BUILT_MODULE
TEST_CASE("the module that was built loads, and says in one sentence if it has no device",
          "[cuda]") {
  const OpenModule module = open_module(TTRACE_BUILT_MODULE);
  INFO(module.problem);
  REQUIRE(module.api != nullptr);
  const FoundDevices found = find_devices(*module.api);
  if (!found.devices.empty()) return;  // this machine has a GPU: scripts/gpu_check.sh tests it
  CAPTURE(found.problem);
  CHECK_FALSE(found.problem.empty());
  CHECK(found.problem.find('\n') == std::string::npos);
  const bool said = found.problem.find("no CUDA device") == 0 ||
                    found.problem.find("the NVIDIA driver is too old") == 0;
  CHECK(said);
}
#endif

}  // namespace
}  // namespace ttrace::measure::cuda::module_test
