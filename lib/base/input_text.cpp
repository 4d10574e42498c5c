#include "base/input_text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/text.h"

namespace ttrace::base {
namespace {

constexpr std::size_t kReadAtOnce = std::size_t{1} << 24;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace

std::string read_text(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) {
    throw input_error(path, ": cannot be read: ", reading_problem(errno));
  }
  if (!S_ISREG(facts.st_mode)) throw input_error(path, ": not a regular file");
  // Non-blocking: should the name have become a pipe since, this does not wait for a writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) {
    throw input_error(path, ": cannot be read: ", reading_problem(errno));
  }
  if (::fstat(file.number(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
    throw input_error(path, ": not a regular file");
  }
  const auto bytes = static_cast<std::uint64_t>(std::max<off_t>(facts.st_size, 0));
  if (bytes > kLargestText) {
    throw input_error(path, ": has ", bytes, " bytes, and at most ", kLargestText,
                      " (1 GiB) are read; no run has that much to tell");
  }
  if (bytes == 0) {
    throw input_error(path, ": is empty; was the job killed while it wrote?");
  }
  std::string text;
  text.reserve(bytes);
  while (text.size() < bytes) {
    const std::size_t done = text.size();
    text.resize(std::min<std::uint64_t>(bytes, done + kReadAtOnce));
    const ssize_t got = ::read(file.number(), text.data() + done, text.size() - done);
    if (got < 0 && errno != EINTR) {
      throw input_error(path, ": cannot be read: ", reading_problem(errno));
    }
    text.resize(done + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) break;  // it has become shorter; the parser tells
  }
  return text;
}

}  // namespace ttrace::base
