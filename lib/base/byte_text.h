// Sizes as people write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ttrace::base {

// "512", "64K", "1.5G", "2GiB": bytes, with units of 1024; nothing if it is no such number or has
// more than 63 bits.
std::optional<std::uint64_t> parse_bytes(std::string_view text);

}  // namespace ttrace::base
