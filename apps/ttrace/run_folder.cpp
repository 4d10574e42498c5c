#include "run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

namespace ttrace::app {
namespace {

namespace fs = std::filesystem;

// A later run recognises the folder as its own by this file and its first words.
constexpr const char* kMark = "commands.txt";
constexpr std::string_view kFirstWords = "Made by `ttrace run`";

constexpr std::array<std::string_view, 7> kFixed{
    "ref.h5",        "run",        "specification.json", "compare.json",
    "localize.json", "audit.json", "page.html"};

// Whether `job` names a noise run, such as "noise12".
bool is_noise_job(std::string_view job) {
  constexpr std::string_view kBegin = "noise";
  return job.starts_with(kBegin) && job.size() > kBegin.size() &&
         std::all_of(job.begin() + kBegin.size(), job.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

bool is_noise_run(std::string_view name) {
  return name.ends_with(".h5") && is_noise_job(name.substr(0, name.find('.')));
}

// Whether `ttrace run` writes a file or folder of this name.
bool is_own_name(std::string_view name) {
  const auto is_of = [name](std::string_view own) {
    // A killed run leaves unfinished outputs under names such as "page.html.123.tmp".
    return name == own || (name.starts_with(own) && name.ends_with(".tmp"));
  };
  if (std::any_of(kFixed.begin(), kFixed.end(), is_of) || is_noise_run(name)) return true;
  const std::string_view job = name.substr(0, name.find('.'));
  if (job != "ref" && job != "run" && !is_noise_job(job)) return false;
  const std::string_view rest = name.substr(job.size());
  return rest == ".log" || rest.starts_with(".done");
}

bool is_own_folder(const std::string& mark) {
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(mark, error))) return false;
  try {
    return base::read_text(mark).starts_with(kFirstWords);
  } catch (const base::InputError&) {
    return false;
  }
}

base::InputError cannot_write(const std::string& path, int error) {
  return base::input_error(path, ": cannot be written: ", base::writing_problem(error));
}

}  // namespace

RunFolder::RunFolder(std::string path) : path_(std::move(path)) {
  while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
  std::error_code error;
  fs::create_directory(path_, error);
  const auto status = fs::status(path_, error);
  if (!fs::is_directory(status)) {
    throw base::input_error(path_, ": cannot be made a folder: ",
                            fs::exists(status) ? "a file of this name is there; name another "
                                                 "folder with --out"
                                               : base::writing_problem(error.value()));
  }
  const bool empty = fs::is_empty(path_, error);
  if (error) throw cannot_write(path_, error.value());
  const std::string mark = file(kMark);
  if (!empty && !is_own_folder(mark)) {
    throw base::input_error(path_,
                            ": holds files and was not made by `ttrace run`, so nothing in "
                            "it is replaced; name another folder with --out");
  }
  lock_ = ::open(mark.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (lock_ < 0) throw cannot_write(mark, errno);
  // On a file system without locks flock fails with another errno, and the folder is used unlocked.
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(std::exchange(lock_, -1));
    throw base::input_error(path_,
                            ": another `ttrace run` works in it; give this one a folder of "
                            "its own with --out");
  }
}

RunFolder::~RunFolder() {
  if (lock_ >= 0) ::close(lock_);
}

void RunFolder::begin(const std::string& what) {
  const std::string text =
      base::concat(kFirstWords, ", which may replace what is in here.\n", what);
  if (::ftruncate(lock_, 0) != 0 || ::lseek(lock_, 0, SEEK_SET) < 0) {
    throw cannot_write(file(kMark), errno);
  }
  if (const int error = base::write_all(lock_, text); error != 0) {
    throw cannot_write(file(kMark), error);
  }
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path_, error)) {
    if (!is_own_name(entry.path().filename().string())) continue;
    fs::remove_all(entry.path(), error);  // follows no links
    if (error) {
      throw base::input_error(
          entry.path().string(),
          ": is of an earlier run and cannot be removed: ", base::writing_problem(error.value()));
    }
  }
  if (error) throw cannot_write(path_, error.value());
}

std::string RunFolder::noise_run(std::size_t seed) const {
  return file(base::concat("noise", seed, ".h5"));
}

std::vector<std::string> RunFolder::kept() const {
  std::vector<std::string> noise;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path_, error)) {
    const std::string name = entry.path().filename().string();
    if (is_noise_run(name)) noise.push_back(name);
  }
  std::sort(noise.begin(), noise.end());
  std::vector<std::string> names;
  for (const std::string_view name : kFixed) {
    if (fs::exists(file(std::string(name)), error)) names.emplace_back(name);
    if (name == "run") names.insert(names.end(), noise.begin(), noise.end());
  }
  return names;
}

std::string RunFolder::file(const std::string& name) const {
  return (fs::path(path_) / name).string();
}

}  // namespace ttrace::app
