// Pairs whose values lie in the memory of devices.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "measure/backend.h"
#include "measure/cuda/workspace.h"

namespace ttrace::measure::cuda {

bool is_resident(const InputBox& input);

// Returns the device in whose memory the request can be computed; nothing if there is none.
std::optional<std::uint32_t> device_of(const PairRequest& request);

// A pair with copies of the values that lie on devices.
class FetchedPair {
 public:
  // Throws an input error if values cannot be fetched.
  FetchedPair(WorkspacePool& pool, const PairRequest& request);
  FetchedPair(const FetchedPair&) = delete;
  FetchedPair& operator=(const FetchedPair&) = delete;

  const PairRequest& request() const { return request_; }

 private:
  PairRequest request_;
  std::array<std::vector<std::byte>, 2> copies_;
};

}  // namespace ttrace::measure::cuda
