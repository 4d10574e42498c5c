#include "base/text.h"
#include "support/catch.h"

namespace ttrace::base {
namespace {

TEST_CASE("sizes are read with units of 1024") {
  CHECK(parse_bytes("0") == 0);
  CHECK(parse_bytes("512") == 512);
  CHECK(parse_bytes("512B") == 512);
  CHECK(parse_bytes("64K") == 65536);
  CHECK(parse_bytes("1.5G") == 1610612736);
  CHECK(parse_bytes("2GB") == 2147483648);
  CHECK(parse_bytes("2GiB") == 2147483648);
  CHECK(parse_bytes("1T") == 1099511627776);
}

TEST_CASE("what is no size is none") {
  for (const char* text : {"", "G", "-1", "1g", "1X", "1KM", "2iB", "nan", "inf", "1e3", " 1", "1 ",
                           "1 G", "9999999999T", "0x10"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_bytes(text).has_value());
  }
}

}  // namespace
}  // namespace ttrace::base
