#include "measure/cuda/resident.h"

#include "tensor/run_cursor.h"

namespace ttrace::measure::cuda {
namespace {

// Whether kernels can read the part of the input that lies in `box` where it is.
bool is_readable_in_place(const InputBox& input, const tensor::Box& box) {
  const tensor::RunCursor cursor(box, input.box);
  const std::size_t width = tensor::element_bytes(input.values.dtype);
  return cursor.is_one_run() &&
         reinterpret_cast<std::uintptr_t>(input.values.bits.data()) % width == 0;
}

}  // namespace

bool is_resident(const InputBox& input) { return input.values.device.has_value(); }

std::optional<std::uint32_t> device_of(const PairRequest& request) {
  std::optional<std::uint32_t> device;
  if (request.grid != nullptr) return std::nullopt;
  for (const InputBox* input : {&request.reference, &request.candidate}) {
    if (!tensor::is_floating(input->values.dtype)) return std::nullopt;
    if (!is_resident(*input)) continue;
    if (device && *device != *input->values.device) return std::nullopt;
    if (!is_readable_in_place(*input, request.box)) return std::nullopt;
    device = input->values.device;
  }
  return device;
}

FetchedPair::FetchedPair(WorkspacePool& pool, const PairRequest& request) : request_(request) {
  const auto fetch = [&](InputBox& input, std::vector<std::byte>& copy) {
    if (!is_resident(input)) return;
    StoredValues& values = input.values;
    copy.resize(values.bits.size());
    pool.fetch(*values.device, values.bits, copy);
    values = {copy, values.dtype, values.scale};
  };
  fetch(request_.reference, copies_[0]);
  fetch(request_.candidate, copies_[1]);
}

}  // namespace ttrace::measure::cuda
