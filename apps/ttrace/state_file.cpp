#include "state_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "comparison/checkpoint/checkpoint_lines.h"
#include "report/json/part_of_work_json.h"

namespace ttrace::app {
namespace {

constexpr std::string_view kStateSchema = "ttrace.state/2";
constexpr std::size_t kReadAtOnce = std::size_t{1} << 20;
// The measurements of a tensor of a million shards have some tens of MiB.
constexpr std::size_t kLongestLine = std::size_t{64} << 20;
constexpr off_t kEnd = std::numeric_limits<off_t>::max();

std::string header_of(const comparison::ComparisonId& id) {
  return base::concat("{\"schema\":\"", kStateSchema,
                      "\",\"comparison\":", report::comparison_id_text(id), "}\n");
}

base::InputError no_state(const std::string& path) {
  return base::input_error(path,
                           ": is no state file of --resume, and is not changed; "
                           "give the name of a new file");
}

// Throws an input error if the header does not belong to this comparison.
void require_same(const std::string& path, const std::string& header,
                  const comparison::ComparisonId& id) {
  std::optional<base::JsonDocument> document;
  try {
    document.emplace(header, path);
    if (document->root().require("schema").as_string() != kStateSchema) throw no_state(path);
  } catch (const base::Error&) {
    throw no_state(path);
  }
  const base::JsonCursor root = document->root();
  root.allow_keys({"schema", "comparison"});
  const std::string difference =
      describe_difference(report::comparison_id_from(root.require("comparison")), id);
  if (difference.empty()) return;
  throw base::input_error(path, ": is the state of another ",
                          id.localized           ? "localization"
                          : id.reference.empty() ? "audit"
                                                 : "comparison",
                          ": ", difference, "; give another file to --resume, or remove this one");
}

}  // namespace

StateFile::StateFile(std::string path, const comparison::ComparisonId& id)
    : path_(std::move(path)) {
  open_and_lock();
  std::string text = read_at(0, kEnd);
  while (text.find('\n') == std::string::npos && text.size() < kLongestLine) {
    const std::string more = read_at(static_cast<off_t>(text.size()), kEnd);
    if (more.empty()) break;
    text += more;
  }
  const std::string header = header_of(id);
  const std::size_t end = text.find('\n');
  if (end == std::string::npos) {
    // The file is empty, or its process was killed while it wrote the header.
    if (!header.starts_with(text)) throw no_state(path_);
    write_header(header);
    lines_at_ = whole_;
    return;
  }
  require_same(path_, text.substr(0, end), id);
  lines_at_ = whole_ = static_cast<off_t>(end + 1);
  off_t at = lines_at_;
  for (std::string piece; !(piece = read_at(at, kEnd)).empty();) {
    const std::size_t last = piece.rfind('\n');
    if (last != std::string::npos) whole_ = at + static_cast<off_t>(last + 1);
    at += static_cast<off_t>(piece.size());
  }
  if (::ftruncate(file_, whole_) != 0 || ::lseek(file_, whole_, SEEK_SET) < 0) {
    throw base::output_error(path_, ": cannot be written: ", base::writing_problem(errno));
  }
}

StateFile::~StateFile() {
  if (file_ >= 0) ::close(file_);
}

void StateFile::open_and_lock() {
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0666);
  if (file_ < 0 && errno == ELOOP) {
    throw base::input_error(path_, ": is a link, and --resume writes to regular files only");
  }
  if (file_ < 0) {
    throw base::input_error(path_, ": cannot be written: ", base::writing_problem(errno));
  }
  struct stat facts {};
  if (::fstat(file_, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    ::close(file_);
    file_ = -1;
    throw base::input_error(path_, ": is not a regular file, which --resume needs");
  }
  // Ignore file systems without locks.
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(file_);
    file_ = -1;
    throw base::input_error(path_,
                            ": another ttrace is writing it; give every process a file of "
                            "its own");
  }
}

void StateFile::write_header(const std::string& header) {
  if (::ftruncate(file_, 0) != 0 || ::lseek(file_, 0, SEEK_SET) < 0) {
    throw base::output_error(path_, ": cannot be written: ", base::writing_problem(errno));
  }
  write(header);
}

std::string StateFile::read_at(off_t at, off_t end) const {
  const off_t left = std::max<off_t>(end - at, 0);
  std::string piece(std::min(kReadAtOnce, static_cast<std::size_t>(left)), '\0');
  ssize_t got = 0;
  do {
    got = ::pread(file_, piece.data(), piece.size(), at);
  } while (got < 0 && errno == EINTR);
  if (got < 0) throw base::input_error(path_, ": cannot be read: ", base::reading_problem(errno));
  piece.resize(static_cast<std::size_t>(got));
  return piece;
}

void StateFile::load(comparison::Checkpoint& work) {
  std::size_t number = 2;
  std::string text;  // from the begin of a line
  const off_t whole = whole_;
  for (off_t at = lines_at_; at < whole;) {
    const std::string piece = read_at(at, whole);
    if (piece.empty()) break;
    at += static_cast<off_t>(piece.size());
    text += piece;
    std::size_t done = 0;
    for (std::size_t end = 0; (end = text.find('\n', done)) != std::string::npos; ++number) {
      try {
        comparison::Finished finished =
            comparison::parse_finished(std::string_view(text).substr(done, end - done));
        if (comparison::problem_of(finished).empty()) work.restore(std::move(finished));
      } catch (const base::Error& error) {
        throw base::input_error(path_, ": line ", number, " ", error.what(),
                                "; remove the file to begin anew");
      }
      done = end + 1;
    }
    text.erase(0, done);
    if (text.size() > kLongestLine) {
      throw base::input_error(path_, ": line ", number, " is longer than ",
                              base::human_bytes(kLongestLine), "; remove the file to begin anew");
    }
  }
}

void StateFile::append(const std::string& line) { write(line + "\n"); }

void StateFile::write(std::string_view text) {
  if (failed_) return;
  int error = base::write_all(file_, text);
  // A network file system or a quota may fail for a moment: the incomplete line is cut off, and the
  // line is written again.
  if (error != 0 && ::ftruncate(file_, whole_) == 0 && ::lseek(file_, whole_, SEEK_SET) >= 0) {
    error = base::write_all(file_, text);
  }
  if (error != 0) return give_up(error);
  whole_ += static_cast<off_t>(text.size());
}

void StateFile::close() {
  const int synced = ::fsync(file_) == 0 ? 0 : errno;
  const int closed = ::close(std::exchange(file_, -1)) == 0 ? 0 : errno;
  if (!failed_ && (synced != 0 || closed != 0)) give_up(synced != 0 ? synced : closed);
}

void StateFile::give_up(int error) {
  failed_ = true;
  base::warn(base::concat(path_, ": cannot be written (", base::writing_problem(error),
                          "); the work goes on, but could not be resumed from here"));
}

}  // namespace ttrace::app
