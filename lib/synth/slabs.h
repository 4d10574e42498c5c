// In which pieces a dataset is made and written.
#pragma once

#include <cstdint>
#include <functional>

#include "tensor/box.h"
#include "tensor/dtype.h"
#include "trace/sink.h"

namespace ttrace::synth {

// The storage of a dataset of `shape`: no chunks where there is nothing to cut, none larger than
// the dataset; where a filter needs chunks and none are given, whole rows of about 1 MiB.
trace::Storage storage_for(const trace::Storage& wanted, const tensor::Shape& shape,
                           tensor::DType dtype);

// Visits boxes that together are `shape`, of at most `limit` elements or one chunk; no chunk is cut
// in two, so that each is compressed once.
void for_each_piece(const tensor::Shape& shape, const trace::Storage& storage, std::uint64_t limit,
                    const std::function<void(const tensor::Box&)>& visit);

}  // namespace ttrace::synth
