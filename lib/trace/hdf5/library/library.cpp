#include "trace/hdf5/library/library.h"

namespace ttrace::trace::hdf5 {
namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

herr_t take_innermost(unsigned, const H5E_error2_t* entry, void* message) {
  if (entry->desc != nullptr) *static_cast<std::string*>(message) = entry->desc;
  return 1;  // the walk goes upward from the innermost: one entry is enough
}

}  // namespace

LibraryLock::LibraryLock() : lock_(library_mutex()) {
  static const bool ready = [] {
    // All files are closed by their owners. What the library does at exit with one that it could
    // not write (a full disk) ends in a crash.
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

}  // namespace ttrace::trace::hdf5
