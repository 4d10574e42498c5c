// The number of the layer that a module belongs to.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ttrace::report {

// 3 of "decoder.layers.3.mlp.experts.5": the first part of the name that is a number. Nothing of a
// module outside the layers.
std::optional<std::uint64_t> layer_of(std::string_view module);

}  // namespace ttrace::report
