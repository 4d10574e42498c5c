#include "base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>

#include "base/error.h"
#include "base/sync.h"
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

namespace fs = std::filesystem;

// A file name has at most 255 bytes, and the suffix takes 21.
constexpr std::size_t kLongestStem = 200;

// "report.json.6c1f0e5a9b7d2438.tmp".
std::string unfinished_name(const std::string& path) {
  std::random_device random;
  const std::uint64_t number = std::uint64_t{random()} << 32 | random();
  std::array<char, 32> suffix{};
  std::snprintf(suffix.data(), suffix.size(), ".%016llx.tmp",
                static_cast<unsigned long long>(number));
  const fs::path whole(path);
  const std::string stem = whole.filename().string().substr(0, kLongestStem);
  return (whole.parent_path() / (stem + suffix.data())).string();
}

// An entry of the list that is shared with forked processes.
struct Note {
  enum State : std::uint32_t { kFree, kTaken, kNoted };
  std::atomic<std::uint32_t> state;
  char path[4092];
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
constexpr int kNotes = 64;

Note* notes = nullptr;

// Lists `path` and returns its index, or -1 if the list is full. Called before the file is created,
// because an unlisted file could be left behind.
int note(const std::string& path) {
  if (notes == nullptr || path.size() >= sizeof(Note::path)) return -1;
  for (int i = 0; i < kNotes; ++i) {
    std::uint32_t free = Note::kFree;
    if (!notes[i].state.compare_exchange_strong(free, Note::kTaken)) continue;
    std::memcpy(notes[i].path, path.c_str(), path.size() + 1);
    notes[i].state.store(Note::kNoted);
    return i;
  }
  return -1;
}

void forget(int place) {
  if (place >= 0) notes[place].state.store(Note::kFree);
}

// Renames without replacing anything. Returns 0 or the errno.
int rename_to_free_place(const std::string& from, const std::string& to) {
#ifdef RENAME_NOREPLACE
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != ENOSYS && errno != EINVAL) return errno;
#endif
  // The file system does not support it. Linking a file fails if the target exists.
  if (::link(from.c_str(), to.c_str()) == 0) return ::unlink(from.c_str()) == 0 ? 0 : errno;
  if (errno == EEXIST) return errno;
  require_free_place(to, Existing::kKept);
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

}  // namespace

std::string read_text(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) {
    throw input_error(path, ": cannot be read: ", reading_problem(errno));
  }
  if (!S_ISREG(facts.st_mode)) throw input_error(path, ": not a regular file");
  // Non-blocking, in case the name has become a pipe since: do not wait for a writer.
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
                      " (1 GiB) are read; no manifest or rules file is that large");
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
    if (got == 0) break;  // the file has shrunk; the parser will report it
  }
  return text;
}

void require_free_place(const std::string& path, Existing existing) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0) return;  // other problems show when it is opened
  if (existing == Existing::kKept) {
    throw input_error(path, ": is there already and is not replaced; give another name, or move ",
                      "it away");
  }
  if (S_ISREG(facts.st_mode)) return;
  const char* what = S_ISLNK(facts.st_mode)   ? "a link"
                     : S_ISDIR(facts.st_mode) ? "a directory"
                                              : "a device, pipe or socket";
  throw input_error(path, ": cannot be written: it is ", what,
                    ", and only a regular file is replaced; give another name",
                    S_ISDIR(facts.st_mode) ? "" : ", or - for standard output");
}

UnfinishedOutput::UnfinishedOutput(std::string path, Existing existing)
    : path_(std::move(path)), existing_(existing), unfinished_(unfinished_name(path_)) {
  require_free_place(path_, existing_);
  note_ = note(unfinished_);
}

UnfinishedOutput::~UnfinishedOutput() {
  if (unfinished_.empty()) return;
  std::error_code error;
  fs::remove_all(unfinished_, error);
  forget(note_);
}

void UnfinishedOutput::put_in_place() {
  require_free_place(path_, existing_);
  const auto require = [this](int error, const char* what) {
    if (error != 0) throw output_error(path_, ": ", what, ": ", writing_problem(error));
  };
  require(sync_all_of(unfinished_), "cannot be written to the disk");
  rename_to_place();
  require(sync_folder_of(path_), "is in place, and its folder cannot be synced");
}

void UnfinishedOutput::rename_to_place() {
  int error = 0;
  if (existing_ == Existing::kKept) {
    error = rename_to_free_place(unfinished_, path_);
  } else if (::rename(unfinished_.c_str(), path_.c_str()) != 0) {
    error = errno;
  }
  if (error == EEXIST) require_free_place(path_, existing_);
  if (error != 0) {
    throw output_error(path_, ": cannot be put in place: ", writing_problem(error));
  }
  unfinished_.clear();
  forget(note_);
}

NewFile::NewFile(std::string path, Existing existing) : output_(std::move(path), existing) {
  const std::string& name = output_.unfinished_path();
  descriptor_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    throw output_error(output_.path(), ": cannot be written: ", writing_problem(errno));
  }
}

NewFile::~NewFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void NewFile::store(std::string_view text) {
  int error = write_all(descriptor_, text);
  if (::close(descriptor_) != 0 && error == 0) error = errno;
  descriptor_ = -1;
  if (error != 0) {
    throw output_error(output_.path(), ": cannot be written: ", writing_problem(error));
  }
  output_.put_in_place();
}

int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(descriptor, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    if (put == 0) return EIO;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return 0;
}

void share_unfinished_outputs() {
  if (notes != nullptr) return;
  void* memory = ::mmap(nullptr, sizeof(Note) * kNotes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) notes = static_cast<Note*>(memory);  // all zero: all free
}

void remove_unfinished_outputs() {
  for (int i = 0; notes != nullptr && i < kNotes; ++i) {
    if (notes[i].state.load() == Note::kNoted) {
      std::error_code error;
      fs::remove_all(notes[i].path, error);
    }
    notes[i].state.store(Note::kFree);
  }
}

}  // namespace ttrace::base
