#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/files.h"
#include "base/refusal.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace ttrace::base {
namespace {

using test::check_refused;

TEST_CASE("a text is read whole") {
  const test::TempDir dir;
  const std::string text = std::string(100'000, 'x') + "\n";
  test::write_file(dir.file("text"), text);
  CHECK(read_text(dir.file("text")) == text);
}

TEST_CASE("what is no text to read is refused, with the reason") {
  const test::TempDir dir;
  check_refused([&] { read_text(dir.file("absent")); }, {"absent", "No such file"});
  check_refused([&] { read_text(dir.path()); }, {dir.path(), "not a regular file"});
  check_refused([&] { read_text("/dev/zero"); }, {"/dev/zero: not a regular file"});
  REQUIRE(::mkfifo(dir.file("pipe").c_str(), 0600) == 0);
  check_refused([&] { read_text(dir.file("pipe")); }, {"not a regular file"});
  test::write_file(dir.file("empty"), "");
  check_refused([&] { read_text(dir.file("empty")); }, {"empty: is empty"});
  if (::geteuid() == 0) return;  // who may read everything
  test::write_file(dir.file("secret"), "x");
  REQUIRE(::chmod(dir.file("secret").c_str(), 0) == 0);
  check_refused([&] { read_text(dir.file("secret")); }, {"secret", "permission denied"});
}

TEST_CASE("a text larger than any run's is refused before it is read") {
  const test::TempDir dir;
  test::write_file(dir.file("sparse"), "{");
  std::filesystem::resize_file(dir.file("sparse"), std::uint64_t{1} << 42);
  check_refused([&] { read_text(dir.file("sparse")); },
                {"sparse", "has 4398046511104 bytes", "1 GiB"});
}

}  // namespace
}  // namespace ttrace::base
