#include "base/deflate.h"

#include <zlib.h>

#include <string>

#include "base/error.h"
#include "support/catch.h"

namespace ttrace::base::deflate_test {
namespace {

std::string sample() {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += concat("tensor ", i * 7919 % 1000, "\n");
  return text;
}

// By zlib, whatever the program uses. `window`: 15 for zlib's format, 31 for gzip's.
std::string inflated(const std::string& bytes, std::size_t size, int window) {
  std::string out(size, '\0');
  z_stream stream{};
  REQUIRE(inflateInit2(&stream, window) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  CHECK(inflate(&stream, Z_FINISH) == Z_STREAM_END);
  inflateEnd(&stream);
  return out;
}

TEST_CASE("zlib reads what is compressed here") {
  const std::string text = sample();
  const std::string zlib = zlib_compressed(text);
  CHECK(zlib.size() < text.size() / 3);
  CHECK(inflated(zlib, text.size(), 15) == text);
  CHECK(inflated(gzip_compressed(text), text.size(), 31) == text);
  CHECK(inflated(zlib_compressed(""), 0, 15) == "");
}

TEST_CASE("a gzip file is read as its text, anything else as it is") {
  const std::string text = sample();
  CHECK(gunzipped(gzip_compressed(text), "a.gz") == text);
  CHECK(gunzipped("{}", "a.json") == "{}");
  CHECK(gunzipped("", "a.json") == "");
}

TEST_CASE("damaged gzip files are refused with their name") {
  const std::string good = gzip_compressed(sample());
  std::string flipped = good;
  flipped[flipped.size() / 2] ^= 1;
  std::string lying = good;
  lying.replace(lying.size() - 4, 4, std::string("\xff\xff\xff\x3f", 4));  // a text of 1 GiB
  std::string huge = good;
  huge.replace(huge.size() - 4, 4, std::string("\xff\xff\xff\xff", 4));
  for (const std::string& bad :
       {good.substr(0, good.size() - 1), good.substr(0, 2), flipped, lying, huge, good + good}) {
    std::string message;
    try {
      gunzipped(bad, "a.gz");
    } catch (const Error& error) {
      message = error.what();
    }
    CHECK(message == "a.gz: is a damaged gzip file, or one of several members; write it again");
  }
}

TEST_CASE("a text beyond what is asked for is refused before there is memory for it") {
  const std::string packed = gzip_compressed(std::string(100000, ' '));
  CHECK(gunzipped(packed, "a.gz", 100000).size() == 100000);
  std::string message;
  try {
    gunzipped(packed, "a.gz", 99999);
  } catch (const InputError& error) {
    message = error.what();
  }
  CHECK(message.find("a.gz: would take more memory than --memory allows") == 0);
}

}  // namespace
}  // namespace ttrace::base::deflate_test
