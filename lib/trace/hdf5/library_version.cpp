#include "trace/hdf5/library_version.h"

#include "base/concat.h"
#include "trace/hdf5/handle.h"

namespace ttrace::trace::hdf5 {

std::string library_version() {
  const LibraryLock lock;
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  H5get_libversion(&major, &minor, &release);
  const std::string running = base::concat(major, ".", minor, ".", release);
  const std::string built = base::concat(H5_VERS_MAJOR, ".", H5_VERS_MINOR, ".", H5_VERS_RELEASE);
  return running == built ? running : base::concat(running, " (built with ", built, ")");
}

}  // namespace ttrace::trace::hdf5
