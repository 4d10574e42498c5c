#include "trace/hdf5/library/checked_driver.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <memory>
#include <set>

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

#include "base/error.h"

namespace ttrace::trace::hdf5 {
namespace {

constexpr haddr_t kLargestAddress = std::numeric_limits<off_t>::max();

struct CheckedFile {
  H5FD_t common{};  // HDF5's part; must come first
  int descriptor = -1;
  haddr_t end = 0;  // size of the file
  timespec changed{};
  haddr_t allocated = 0;  // what HDF5 believes to be in use
  dev_t device = 0;
  ino_t inode = 0;
};

CheckedFile& of(H5FD_t* file) { return *reinterpret_cast<CheckedFile*>(file); }
const CheckedFile& of(const H5FD_t* file) { return *reinterpret_cast<const CheckedFile*>(file); }

// The open files, by which a handle of HDF5 is recognized as one of this driver. The library's lock
// guards them.
std::set<const void*>& open_files() {
  static std::set<const void*> files;
  return files;
}

// Why the last file could not be opened; the library's lock guards it.
int open_error = 0;

// Why a read failed; the library's lock guards it.
int read_error = 0;

H5FD_t* open_file(const char* name, unsigned flags, hid_t, haddr_t) {
  if ((flags & H5F_ACC_RDWR) != 0) return nullptr;
  // Non-blocking: should the name have become a FIFO since it was looked at, this does not wait.
  const int descriptor = ::open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  open_error = descriptor < 0 ? errno : 0;
  if (descriptor < 0) return nullptr;
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    return nullptr;
  }
  auto file = std::make_unique<CheckedFile>();
  file->descriptor = descriptor;
  file->end = static_cast<haddr_t>(status.st_size);
  file->changed = status.st_mtim;
  file->device = status.st_dev;
  file->inode = status.st_ino;
  open_files().insert(file.get());
  return &file.release()->common;
}

herr_t close_file(H5FD_t* common) {
  const std::unique_ptr<CheckedFile> file(&of(common));
  open_files().erase(file.get());
  return ::close(file->descriptor) == 0 ? 0 : -1;
}

int compare_files(const H5FD_t* a, const H5FD_t* b) {
  const CheckedFile& x = of(a);
  const CheckedFile& y = of(b);
  if (x.device != y.device) return x.device < y.device ? -1 : 1;
  if (x.inode != y.inode) return x.inode < y.inode ? -1 : 1;
  return 0;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  if (flags != nullptr) *flags = 0;
  return 0;
}

haddr_t allocated_end(const H5FD_t* file, H5FD_mem_t) { return of(file).allocated; }

herr_t set_allocated_end(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  of(file).allocated = address;
  return 0;
}

haddr_t file_end(const H5FD_t* file, H5FD_mem_t) { return of(file).end; }

herr_t read_file(H5FD_t* common, H5FD_mem_t, hid_t, haddr_t address, std::size_t size,
                 void* buffer) {
  const CheckedFile& file = of(common);
  if (address > file.end || size > file.end - address) return -1;
  auto* to = static_cast<char*>(buffer);
  while (size > 0) {
    const ssize_t got = ::pread(file.descriptor, to, size, static_cast<off_t>(address));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && read_error == 0) read_error = errno;
    if (got <= 0) return -1;  // an error, or the file has shrunk since it was opened
    to += got;
    size -= static_cast<std::size_t>(got);
    address += static_cast<haddr_t>(got);
  }
  return 0;
}

herr_t handle_of(H5FD_t* common, hid_t, void** handle) {
  *handle = &of(common);
  return 0;
}

herr_t refuse_write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, std::size_t, const void*) { return -1; }

hid_t driver() {
  static const hid_t id = [] {
    H5FD_class_t driver{};
#ifdef H5FD_CLASS_VERSION
    driver.version = H5FD_CLASS_VERSION;
    driver.value = static_cast<H5FD_class_value_t>(H5_VFD_RESERVED + 1);
#endif
    driver.name = "ttrace_checked";
    driver.maxaddr = kLargestAddress;
    driver.fc_degree = H5F_CLOSE_WEAK;
    driver.open = open_file;
    driver.close = close_file;
    driver.cmp = compare_files;
    driver.query = query;
    driver.get_eoa = allocated_end;
    driver.set_eoa = set_allocated_end;
    driver.get_eof = file_end;
    driver.get_handle = handle_of;
    driver.read = read_file;
    driver.write = refuse_write;
    return H5FDregister(&driver);
  }();
  return id;
}

}  // namespace

void use_checked_driver(hid_t access) {
  if (driver() < 0 || H5Pset_driver(access, driver(), nullptr) < 0) {
    throw base::internal_error("registering the HDF5 file driver: ", last_error());
  }
}

int last_open_error() { return open_error; }

int first_read_error() { return read_error; }

void forget_read_error() { read_error = 0; }

std::optional<OpenFile> open_file_of(hid_t object) {
  const Handle file(H5Iget_file_id(object), H5Fclose);
  void* opened = nullptr;
  if (!file || H5Fget_vfd_handle(file.get(), H5P_DEFAULT, &opened) < 0) {
    H5Eclear2(H5E_DEFAULT);
    return std::nullopt;
  }
  if (!open_files().contains(opened)) return std::nullopt;
  const auto& checked = *static_cast<const CheckedFile*>(opened);
  return OpenFile{checked.descriptor, checked.end, checked.changed};
}

}  // namespace ttrace::trace::hdf5
