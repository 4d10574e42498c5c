// cuBLAS, opened at run time where it is there. It makes estimates only: what they find is computed
// again in the fixed order before anything depends on it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "measure/cuda/device_gemm.h"

namespace ttrace::measure::cuda {

// Names the library, or the folder that it lies in.
inline constexpr const char* kCublasVariable = "TTRACE_CUBLAS";

// Where cuBLAS is looked for, in this order: the variable alone if it is set; else what the loader
// finds by name, and the folders of the Python packages nvidia-cublas (13) and nvidia-cublas-cu12
// of the active virtual environment and of the one that the program lies in.
std::vector<std::string> cublas_places();

class Cublas : public measure::cuda::DeviceGemm {
 public:
  // The library is opened by the first multiply(): most commands estimate nothing.
  explicit Cublas(std::vector<std::string> places) : places_(std::move(places)) {}
  ~Cublas() override;
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  // Binary64 throughout, in pedantic mode: no emulation by narrower types.
  bool multiply(std::uint32_t device, void* stream,
                const measure::cuda::ProductLaunch& launch) override;
  // "2 products estimated by cuBLAS 13.1.0", "no cuBLAS for estimates: ...".
  std::string remarks() const override;

 private:
  struct Functions;
  // The first call opens the library; false if that failed, and problem_ says why.
  bool open();
  bool open_library(const std::string& place);
  void* handle_of(std::uint32_t device);

  std::vector<std::string> places_;
  mutable std::mutex mutex_;
  bool opened_ = false;
  std::shared_ptr<const Functions> functions_;  // the library itself stays loaded
  std::map<std::uint32_t, void*> handles_;
  std::string version_;
  std::string problem_;
  bool failed_ = false;  // after it was opened
  std::uint64_t products_ = 0;
};

}  // namespace ttrace::measure::cuda
