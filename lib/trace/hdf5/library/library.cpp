#include "trace/hdf5/library/library.h"

#include <sys/mman.h>

#include <cstring>
#include <set>

#include "trace/hdf5/trace_files.h"

namespace ttrace::trace::hdf5 {
namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

herr_t take_innermost(unsigned, const H5E_error2_t* entry, void* message) {
  if (entry->desc != nullptr) *static_cast<std::string*>(message) = entry->desc;
  return 1;  // the walk begins with the innermost entry
}

constexpr std::size_t kNoteBytes = 8192;  // longer paths are not noted

char* note = nullptr;

std::set<std::string>& damaged_files() {
  static std::set<std::string> files;
  return files;
}

}  // namespace

LibraryLock::LibraryLock() : lock_(library_mutex()) {
  static const bool ready = [] {
    // All files are closed by their owners. The library crashes at exit if it could not write a
    // file (a full disk).
    H5dont_atexit();
    H5open();
    H5PLset_loading_state(0);
    return true;
  }();
  // A thread-safe build of the library keeps an error stack, with its own printing, per thread.
  thread_local const bool quiet = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
  static_cast<void>(ready);
  static_cast<void>(quiet);
}

std::string last_error() {
  std::string message = "HDF5 gives no reason";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_innermost, &message);
  H5Eclear2(H5E_DEFAULT);
  return message;
}

void share_reading_note() {
  if (note != nullptr) return;
  void* memory =
      ::mmap(nullptr, kNoteBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) note = static_cast<char*>(memory);
}

std::string noted_file() { return note == nullptr ? "" : std::string(note); }

void declare_damaged(const std::string& file) {
  damaged_files().insert(file);
  if (note != nullptr) note[0] = '\0';
}

bool is_declared_damaged(const std::string& file) { return damaged_files().contains(file); }

ReadingNote::ReadingNote(const std::string& file) {
  if (note == nullptr || file.size() >= kNoteBytes) return;
  std::memcpy(note, file.c_str(), file.size() + 1);
}

ReadingNote::~ReadingNote() {
  if (note != nullptr) note[0] = '\0';
}

}  // namespace ttrace::trace::hdf5
