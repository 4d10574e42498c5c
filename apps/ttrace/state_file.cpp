#include "state_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
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
  std::string text;
  std::string buffer(kReadAtOnce, '\0');
  for (ssize_t got = 0; (got = ::read(file_, buffer.data(), buffer.size())) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw base::input_error(path_, ": cannot be read: ", base::reading_problem(errno));
    text.append(buffer, 0, static_cast<std::size_t>(got));
  }
  const std::string header = header_of(id);
  const std::size_t end = text.find('\n');
  if (end == std::string::npos) {
    // The file is empty, or its process was killed while it wrote the header.
    if (!header.starts_with(text)) throw no_state(path_);
    write_header(header);
    return;
  }
  require_same(path_, text.substr(0, end), id);
  const std::size_t whole = text.rfind('\n') + 1;
  lines_ = text.substr(end + 1, whole - end - 1);
  whole_ = static_cast<off_t>(whole);
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

void StateFile::load(comparison::Checkpoint& work) {
  std::size_t number = 2;
  for (std::size_t at = 0; at < lines_.size(); ++number) {
    const std::size_t end = lines_.find('\n', at);
    try {
      comparison::Finished finished =
          comparison::parse_finished(std::string_view(lines_).substr(at, end - at));
      if (comparison::problem_of(finished).empty()) work.restore(std::move(finished));
    } catch (const base::Error& error) {
      throw base::input_error(path_, ": line ", number, " ", error.what(),
                              "; remove the file to begin anew");
    }
    at = end + 1;
  }
  lines_ = {};
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
