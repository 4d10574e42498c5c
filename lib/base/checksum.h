// A fast checksum, for bytes that a machine may have damaged. It proves nothing about forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ttrace::base {

// XXH64 of xxHash 0.8 (Yann Collet; doc/xxhash_spec.md): about 12 GB/s on a core of 3 GHz. The seed
// may be the checksum of the bytes before.
std::uint64_t xxh64(std::span<const std::byte> bytes, std::uint64_t seed = 0);

}  // namespace ttrace::base
