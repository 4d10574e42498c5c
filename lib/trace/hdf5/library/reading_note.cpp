#include "trace/hdf5/library/reading_note.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace ttrace::trace::hdf5 {
namespace {

constexpr std::size_t kNoteBytes = 8192;  // longer paths are not noted

char* note = nullptr;

std::set<std::string>& damaged_files() {
  static std::set<std::string> files;
  return files;
}

}  // namespace

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
