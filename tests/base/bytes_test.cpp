#include "base/bytes.h"

#include <bit>
#include <limits>
#include <random>

#include "base/refusal.h"
#include "base/text.h"
#include "support/catch.h"

namespace ttrace::base::bytes_test {
namespace {

using test::refusal_of;

std::string refusal(const std::string& bytes, void (*read)(ByteReader&)) {
  return refusal_of([&] {
    ByteReader in(bytes);
    read(in);
    in.finish();
  });
}

TEST_CASE("what is written as bytes is read again, to the bit") {
  const double odd = std::bit_cast<double>(std::uint64_t{0x7ff4dead00000001});  // a NaN
  ByteWriter out;
  for (const std::uint64_t value : {0ULL, 1ULL, 127ULL, 128ULL, ~0ULL}) out.count(value);
  for (const double value : {0.0, -0.0, 0.1, std::numeric_limits<double>::denorm_min(), odd}) {
    out.number(value);
  }
  out.text("");
  out.text(std::string("a\0b\n", 4));
  ByteReader in(out.bytes());
  for (const std::uint64_t value : {0ULL, 1ULL, 127ULL, 128ULL, ~0ULL}) CHECK(in.count() == value);
  for (const double value : {0.0, -0.0, 0.1, std::numeric_limits<double>::denorm_min(), odd}) {
    CHECK(std::bit_cast<std::uint64_t>(in.number()) == std::bit_cast<std::uint64_t>(value));
  }
  CHECK(in.text().empty());
  CHECK(in.text() == std::string("a\0b\n", 4));
  in.finish();
}

TEST_CASE("bytes that nobody wrote are refused") {
  CHECK(refusal("", [](ByteReader& in) { in.count(); }) == "ends before it is complete");
  CHECK(refusal("\x80", [](ByteReader& in) { in.count(); }) == "ends before it is complete");
  CHECK(refusal("1234567", [](ByteReader& in) { in.number(); }) == "ends before it is complete");
  CHECK(refusal("\x02x", [](ByteReader& in) { in.text(); }) == "ends before it is complete");
  CHECK(refusal("\x02x", [](ByteReader& in) { in.items(); }) == "ends before it is complete");
  CHECK(refusal("\x02", [](ByteReader& in) { in.flag(); }) == "has 2 where 0 or 1 is expected");
  CHECK(refusal("\x01\x01", [](ByteReader& in) { in.count(); }) == "has 1 bytes after its end");
  const std::string none = "has a whole number that does not fit 64 bits";
  CHECK(refusal(std::string("\x80\x00", 2), [](ByteReader& in) { in.count(); }) == none);
  CHECK(refusal(std::string(9, '\xff') + "\x02", [](ByteReader& in) { in.count(); }) == none);
  CHECK(refusal(std::string(11, '\xff'), [](ByteReader& in) { in.count(); }) == none);
}

TEST_CASE("base64 is that of RFC 4648") {
  const std::vector<std::pair<std::string, std::string>> cases{{"", ""},
                                                               {"f", "Zg=="},
                                                               {"fo", "Zm8="},
                                                               {"foo", "Zm9v"},
                                                               {"foob", "Zm9vYg=="},
                                                               {"fooba", "Zm9vYmE="},
                                                               {"foobar", "Zm9vYmFy"},
                                                               {"\xff\xfe", "//4="}};
  for (const auto& [bytes, text] : cases) {
    CHECK(base64(bytes) == text);
    CHECK(from_base64(text) == bytes);
  }
  for (const char* text :
       {"Z", "Zg=", "Zh==", "Zm9=", "====", "Z===", "Zg==Zg==", "Z g=", "Zm9v\n"}) {
    CHECK(refusal_of([&] { from_base64(text); }) == "is not base64");
  }
}

TEST_CASE("property: any bytes survive base64") {
  std::mt19937 random(1);
  for (std::size_t size = 0; size < 200; ++size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() & 0xff);
    REQUIRE(from_base64(base64(bytes)) == bytes);
  }
}

TEST_CASE("the checksum is FNV-1a") {
  CHECK(fnv1a("") == 0xcbf29ce484222325U);
  CHECK(fnv1a("a") == 0xaf63dc4c8601ec8cU);
}

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

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

TEST_CASE("checked_mul gives the product or nothing") {
  CHECK(checked_mul(6, 7) == std::uint64_t{42});
  CHECK(checked_mul(0, kMost) == std::uint64_t{0});
  CHECK(checked_mul(kMost, 1) == kMost);
  CHECK(checked_mul(std::uint64_t{1} << 32, (std::uint64_t{1} << 32) - 1) ==
        kMost - ((std::uint64_t{1} << 32) - 1));
  CHECK_FALSE(checked_mul(kMost, 2).has_value());
  CHECK_FALSE(checked_mul(std::uint64_t{1} << 32, std::uint64_t{1} << 32).has_value());
}

TEST_CASE("checked_add gives the sum or nothing") {
  CHECK(checked_add(40, 2) == std::uint64_t{42});
  CHECK(checked_add(kMost, 0) == kMost);
  CHECK(checked_add(kMost - 5, 5) == kMost);
  CHECK_FALSE(checked_add(kMost, 1).has_value());
  CHECK_FALSE(checked_add(kMost, kMost).has_value());
}

}  // namespace

}  // namespace ttrace::base::bytes_test
