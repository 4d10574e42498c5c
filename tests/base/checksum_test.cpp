#include "base/checksum.h"

#include <vector>

#include "support/catch.h"

namespace ttrace::base::checksum_test {
namespace {

std::vector<std::byte> bytes_of(std::size_t count) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < count; ++i) bytes.push_back(std::byte((i * i + 7 * i) & 255));
  return bytes;
}

TEST_CASE("a checksum is XXH64") {
  // By xxhash 4.1.0, a Python package around the reference implementation.
  struct Case {
    std::size_t count;
    std::uint64_t plain;
    std::uint64_t seeded;
  };
  for (const Case& one : std::vector<Case>{{0, 0xef46db3751d8e999, 0xac75fda2929b17ef},
                                           {1, 0xe934a84adb052768, 0x5014607643a9b4c3},
                                           {3, 0xbb3a592908a981a8, 0x225a549f1f732ccb},
                                           {4, 0x798a8b758de10b9c, 0x45a11f51b4af778a},
                                           {7, 0xc524fe6186d68234, 0xcafc06f3ff101345},
                                           {8, 0x628b254fd17d4862, 0xf1d633e861c6201e},
                                           {12, 0x043665c447d22a2a, 0xee3f96598bfab158},
                                           {31, 0xff266226c2de2379, 0xe344fbb25d5234fb},
                                           {32, 0xad211363e6d6be0f, 0xf4690720b92b9d26},
                                           {33, 0xa8489fde2b7ec3ae, 0x12e7bcbeffb962bd},
                                           {63, 0xe91f43e8d0ae523e, 0xc2f2ebf7ae2b88a4},
                                           {64, 0x81c939fdb6a47468, 0x9fc0f2bffba72654},
                                           {100, 0xe43cd255bde054f5, 0xe7c16fb3d6e4296a},
                                           {1000, 0xe54ef276878ba050, 0xec47d09ad164c4e8}}) {
    CAPTURE(one.count);
    CHECK(xxh64(bytes_of(one.count)) == one.plain);
    CHECK(xxh64(bytes_of(one.count), 0x9E3779B1) == one.seeded);
  }
}

}  // namespace
}  // namespace ttrace::base::checksum_test
