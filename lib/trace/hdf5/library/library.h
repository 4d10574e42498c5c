// HDF5 identifiers as values that close themselves, the one lock around a library that has global
// state and is not built thread-safe in the distributions, and notes of the file that it reads.
#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

namespace ttrace::trace::hdf5 {

// Every call into HDF5, closing included, happens while one of these lives. Recursive, because
// handles close themselves inside functions that hold it. The first one sets the library up: no
// messages of its own on stderr, no plugins loaded on a file's say-so.
class LibraryLock {
 public:
  LibraryLock();

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

class Handle {
 public:
  using Close = herr_t (*)(hid_t);

  Handle() = default;
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept
      : id_(std::exchange(other.id_, -1)), close_(std::exchange(other.close_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) {
      const LibraryLock lock;
      close_(id_);
    }
  }

  // Closes it now. Returns whether that succeeded: HDF5 writes what it has kept back.
  bool close_now() {
    const LibraryLock lock;
    return id_ < 0 || close_(std::exchange(id_, -1)) >= 0;
  }

  hid_t get() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

// The innermost message of HDF5's error stack, e.g. "file signature not found"; clears the stack.
std::string last_error();

// Notes `file` as the one that is being read, as long as it lives (see trace_files.h). Hold a
// LibraryLock around it.
class ReadingNote {
 public:
  explicit ReadingNote(const std::string& file);
  ~ReadingNote();
  ReadingNote(const ReadingNote&) = delete;
  ReadingNote& operator=(const ReadingNote&) = delete;
};

bool is_declared_damaged(const std::string& file);

}  // namespace ttrace::trace::hdf5
