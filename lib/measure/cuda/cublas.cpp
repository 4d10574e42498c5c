#include "measure/cuda/cublas.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/text.h"

// The library is opened by name, so that no header of it is needed. Where there is one, the
// compiler checks what is declared here.
#if __has_include(<cublas_v2.h>)
#include <cublas_v2.h>
#define TTRACE_HAS_CUBLAS_HEADER
#endif

namespace ttrace::measure::cuda {
namespace {

namespace fs = std::filesystem;
using base::concat;

constexpr int kSuccess = 0;
constexpr int kAsStored = 0;
constexpr int kTransposed = 1;
constexpr int kPedantic = 2;
constexpr std::array kNames{"libcublas.so.13", "libcublas.so.12"};
constexpr std::array kPackages{"nvidia/cu13/lib", "nvidia/cublas/lib"};

#ifdef TTRACE_HAS_CUBLAS_HEADER
static_assert(CUBLAS_STATUS_SUCCESS == kSuccess && CUBLAS_OP_N == kAsStored &&
              CUBLAS_OP_T == kTransposed && CUBLAS_PEDANTIC_MATH == kPedantic);
static_assert(sizeof(cublasStatus_t) == sizeof(int) && sizeof(cublasOperation_t) == sizeof(int) &&
              sizeof(cublasMath_t) == sizeof(int) && sizeof(cublasHandle_t) == sizeof(void*));
static_assert(
    std::is_same_v<decltype(&cublasDgemm_v2),
                   cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int,
                                      int, int, const double*, const double*, int, const double*,
                                      int, const double*, double*, int)>);
#endif

void add_packages_below(const fs::path& environment, std::vector<std::string>& places) {
  std::error_code error;
  for (const char* lib : {"lib", "lib64"}) {
    for (const fs::directory_entry& python : fs::directory_iterator(environment / lib, error)) {
      if (!python.path().filename().string().starts_with("python3")) continue;
      for (const char* package : kPackages) {
        const fs::path folder = python.path() / "site-packages" / package;
        if (fs::is_directory(folder, error)) places.push_back(folder.string());
      }
    }
  }
}

// An operand as cuBLAS takes it, which stores matrices by columns. With its lines as columns it is
// `steps` × lines; transposed if the elements of a step lie side by side.
struct CublasOperand {
  int how = kAsStored;
  std::uint64_t leading = 0;
};

CublasOperand with_lines_as_columns(const measure::cuda::DeviceOperand& operand,
                                    std::uint64_t lines, std::uint64_t steps) {
  if (operand.step_stride == 1) return {kAsStored, std::max(operand.line_stride, steps)};
  return {kTransposed, std::max(operand.step_stride, lines)};
}

}  // namespace

struct Cublas::Functions {
  int (*create)(void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  int (*get_version)(void* handle, int* version) = nullptr;
  int (*set_stream)(void* handle, void* stream) = nullptr;
  int (*set_math_mode)(void* handle, int mode) = nullptr;
  int (*dgemm)(void* handle, int of_a, int of_b, int m, int n, int k, const double* alpha,
               const double* a, int lda, const double* b, int ldb, const double* beta, double* c,
               int ldc) = nullptr;
  const char* (*status_text)(int status) = nullptr;
};

std::vector<std::string> cublas_places() {
  if (const char* given = std::getenv(kCublasVariable); given != nullptr && *given != '\0') {
    return {given};
  }
  std::vector<std::string> places(kNames.begin(), kNames.end());
  if (const char* active = std::getenv("VIRTUAL_ENV"); active != nullptr && *active != '\0') {
    add_packages_below(active, places);
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  // <environment>/bin/ttrace, or a folder of a package in its site-packages.
  for (fs::path folder = program.parent_path(); folder.has_relative_path();
       folder = folder.parent_path()) {
    if (fs::exists(folder / "pyvenv.cfg", error)) add_packages_below(folder, places);
  }
  return places;
}

Cublas::~Cublas() {
  for (const auto& [device, handle] : handles_) {
    if (handle != nullptr) functions_->destroy(handle);
  }
}

bool Cublas::open_library(const std::string& place) {
  std::error_code error;
  std::string path = place;
  if (fs::is_directory(place, error)) {
    path.clear();
    for (const char* name : kNames) {
      if (path.empty() && fs::exists(fs::path(place) / name, error)) path = fs::path(place) / name;
    }
    if (path.empty()) {
      problem_ = concat(base::printable(place), " has no ", kNames[0], " or ", kNames[1]);
      return false;
    }
  }
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    problem_ = base::printable(::dlerror());
    return false;
  }
  auto functions = std::make_unique<Functions>();
  const auto find = [&]<typename Function>(const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    if (function != nullptr) return true;
    problem_ = concat(base::printable(path), " has no function ", name);
    return false;
  };
  if (!find("cublasCreate_v2", functions->create) ||
      !find("cublasDestroy_v2", functions->destroy) ||
      !find("cublasGetVersion_v2", functions->get_version) ||
      !find("cublasSetStream_v2", functions->set_stream) ||
      !find("cublasSetMathMode", functions->set_math_mode) ||
      !find("cublasDgemm_v2", functions->dgemm) ||
      !find("cublasGetStatusString", functions->status_text)) {
    return false;
  }
  functions_ = std::move(functions);
  return true;
}

bool Cublas::open() {
  if (opened_) return functions_ != nullptr;
  opened_ = true;
  for (const std::string& place : places_) {
    if (open_library(place)) return true;
  }
  if (problem_.empty()) problem_ = "none was found";
  return false;
}

void* Cublas::handle_of(std::uint32_t device) {
  const auto known = handles_.find(device);
  if (known != handles_.end()) return known->second;
  void*& handle = handles_[device];
  int status = functions_->create(&handle);
  if (status == kSuccess) status = functions_->set_math_mode(handle, kPedantic);
  int version = 0;
  if (status == kSuccess) status = functions_->get_version(handle, &version);
  if (status != kSuccess) {
    failed_ = true;
    problem_ = concat("it cannot be started: ", base::printable(functions_->status_text(status)));
    if (handle != nullptr) functions_->destroy(handle);
    handle = nullptr;
    return nullptr;
  }
  // 130100 is 13.1.0; versions before 12 had one digit less for the last two.
  version_ = concat(version / 10000, ".", version / 100 % 100, ".", version % 100);
  return handle;
}

bool Cublas::multiply(std::uint32_t device, void* stream,
                      const measure::cuda::ProductLaunch& launch) {
  const std::lock_guard lock(mutex_);
  void* const handle = open() ? handle_of(device) : nullptr;
  if (handle == nullptr) return false;
  // cuBLAS sees c, whose rows are dense, as its transpose of n × m, which is bᵀ·aᵀ.
  const CublasOperand a = with_lines_as_columns(launch.a, launch.m, launch.k);
  CublasOperand b = with_lines_as_columns(launch.b, launch.n, launch.k);
  b.how = b.how == kAsStored ? kTransposed : kAsStored;
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<int>::max());
  if (std::max({launch.m, launch.n, launch.k, a.leading, b.leading}) > kMost) return false;
  const auto number = [](std::uint64_t value) { return static_cast<int>(value); };
  const double one = 1;
  const double kept = launch.add ? 1 : 0;
  int status = functions_->set_stream(handle, stream);
  if (status == kSuccess) {
    status =
        functions_->dgemm(handle, b.how, a.how, number(launch.n), number(launch.m),
                          number(launch.k), &one, launch.b.values, number(b.leading),
                          launch.a.values, number(a.leading), &kept, launch.c, number(launch.n));
  }
  if (status != kSuccess) {
    failed_ = true;
    problem_ = concat("a product failed: ", base::printable(functions_->status_text(status)));
    return false;
  }
  ++products_;
  return true;
}

std::string Cublas::remarks() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  if (products_ > 0) {
    text = concat(base::plural(products_, "product"), " estimated by cuBLAS ", version_);
  }
  // A place that failed counts only if no other place had the library.
  const bool failed = opened_ && (functions_ == nullptr || failed_);
  if (!failed) return text;
  return concat(text, text.empty() ? "" : "; ", "no cuBLAS for estimates: ", problem_);
}

}  // namespace ttrace::measure::cuda
