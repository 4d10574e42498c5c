// A library to preload that makes one call of a program's input or output fail.
//
//   FAIL_IO_PATH   counts calls on files below this folder, and on it; absolute. Without it, none
//   FAIL_IO_CALL   counts these calls alone, separated by commas: open read write sync close rename
//                  link unlink truncate mkdir. All but read without it
//   FAIL_IO_AT     the number of the call that fails, from 1 on. Without it, or with 0, none
//   FAIL_IO_TIMES  how many calls fail from there on: 1 without it
//   FAIL_IO_ERRNO  what it fails with: ENOSPC (without it), EIO, EDQUOT, EROFS, EACCES, EINTR or a
//                  number; SHORT lets a read or write move the half of its bytes and succeed
//   FAIL_IO_COUNT  a file to which each counted call appends a line: number, call, path
//
// A family has all spellings of a call: "write" is write, pwrite, writev, pwritev, fwrite and
// copy_file_range, "sync" fsync and fdatasync, "rename" renameat too, "close" fclose too. A write
// that fails writes nothing; a close that fails has closed, as on Linux. The rename, link and
// unlink of two paths count if either lies below the folder.
//
// Not seen: what libc does inside (fprintf and fputs write when their buffer is full; fwrite here
// fails as a whole), memory maps, and programs that are linked statically.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { kSucceeds = 0, kShort = -1 };

static struct {
  char folder[PATH_MAX];
  char calls[256];
  char log[PATH_MAX];
  long first;
  long times;
  int error;
  bool armed;
} settings;

static atomic_long calls_made;

// Finds the next definition of a function, behind this library's.
#define REAL(name)               \
  static __typeof__(&name) real; \
  if (real == NULL) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static int error_of(const char* text) {
  static const struct {
    const char* name;
    int number;
  } known[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO},     {"EDQUOT", EDQUOT}, {"EROFS", EROFS},
               {"EACCES", EACCES}, {"EINTR", EINTR}, {"SHORT", kShort}};
  if (text == NULL || *text == '\0') return ENOSPC;
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
    if (strcmp(text, known[i].name) == 0) return known[i].number;
  }
  const int number = atoi(text);
  if (number > 0) return number;
  fprintf(stderr, "failing_io: FAIL_IO_ERRNO=%s is no error\n", text);
  abort();
}

static long number_of(const char* variable, long otherwise) {
  const char* const text = getenv(variable);
  return text == NULL || *text == '\0' ? otherwise : atol(text);
}

static void copy_text(char* target, size_t size, const char* text) {
  snprintf(target, size, "%s", text == NULL ? "" : text);
}

// Reads the variables again, and counts from 0. For a process that changes them, or has forked.
void failing_io_reload(void) {
  const char* const folder = getenv("FAIL_IO_PATH");
  settings.armed = folder != NULL && *folder != '\0';
  if (settings.armed && realpath(folder, settings.folder) == NULL) {
    copy_text(settings.folder, sizeof settings.folder, folder);
  }
  copy_text(settings.calls, sizeof settings.calls, getenv("FAIL_IO_CALL"));
  copy_text(settings.log, sizeof settings.log, getenv("FAIL_IO_COUNT"));
  settings.first = number_of("FAIL_IO_AT", 0);
  settings.times = number_of("FAIL_IO_TIMES", 1);
  settings.error = error_of(getenv("FAIL_IO_ERRNO"));
  atomic_store(&calls_made, 0);
}

__attribute__((constructor)) static void start(void) { failing_io_reload(); }

static bool is_below(const char* path) {
  const size_t length = strlen(settings.folder);
  return strncmp(path, settings.folder, length) == 0 &&
         (path[length] == '/' || path[length] == '\0');
}

static bool is_counted(const char* call) {
  if (settings.calls[0] == '\0') return strcmp(call, "read") != 0;
  const size_t length = strlen(call);
  for (const char* at = settings.calls; (at = strstr(at, call)) != NULL; at += length) {
    const bool starts = at == settings.calls || at[-1] == ',';
    if (starts && (at[length] == ',' || at[length] == '\0')) return true;
  }
  return false;
}

static void append_to_log(long number, const char* call, const char* path) {
  if (settings.log[0] == '\0') return;
  char line[PATH_MAX + 64];
  const int length = snprintf(line, sizeof line, "%ld %s %s\n", number, call, path);
  const int file = (int)syscall(SYS_openat, AT_FDCWD, settings.log,
                                O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) return;
  (void)syscall(SYS_write, file, line, (size_t)length);
  (void)syscall(SYS_close, file);
}

// Counts a call on `path`. Returns kSucceeds, kShort or the error that it fails with.
static int outcome(const char* call, const char* path) {
  const long number = atomic_fetch_add(&calls_made, 1) + 1;
  append_to_log(number, call, path);
  const bool fails =
      settings.first > 0 && number >= settings.first && number < settings.first + settings.times;
  return fails ? settings.error : kSucceeds;
}

static int outcome_of_file(const char* call, int file) {
  if (!settings.armed || !is_counted(call)) return kSucceeds;
  const int before = errno;
  char link[64];
  char path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  errno = before;
  if (length <= 0) return kSucceeds;
  path[length] = '\0';
  return is_below(path) ? outcome(call, path) : kSucceeds;
}

// The absolute path of a name in a folder, whose links are followed; the name itself may be one.
static void absolute(int folder, const char* name, char* path) {
  char whole[PATH_MAX];
  char resolved[PATH_MAX];
  if (name[0] == '/') {
    copy_text(whole, sizeof whole, name);
  } else {
    char base[PATH_MAX] = ".";
    if (folder == AT_FDCWD) {
      if (getcwd(base, sizeof base) == NULL) base[0] = '\0';
    } else {
      char link[64];
      snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
      const ssize_t length = readlink(link, base, sizeof base - 1);
      base[length > 0 ? length : 0] = '\0';
    }
    if (snprintf(whole, sizeof whole, "%s/%s", base, name) >= (int)sizeof whole) whole[0] = '\0';
  }
  size_t length = strlen(whole);
  while (length > 1 && whole[length - 1] == '/') whole[--length] = '\0';
  char* const slash = strrchr(whole, '/');
  if (slash != NULL && slash != whole) {
    *slash = '\0';
    const bool known = realpath(whole, resolved) != NULL;
    *slash = '/';
    if (known && snprintf(path, PATH_MAX, "%s%s", resolved, slash) < PATH_MAX) return;
  }
  copy_text(path, PATH_MAX, whole);
}

static int outcome_of_paths(const char* call, int folder, const char* name, int other_folder,
                            const char* other) {
  if (!settings.armed || !is_counted(call)) return kSucceeds;
  const int before = errno;
  char path[PATH_MAX];
  absolute(folder, name, path);
  bool below = is_below(path);
  if (!below && other != NULL) {
    absolute(other_folder, other, path);
    below = is_below(path);
  }
  errno = before;
  return below ? outcome(call, path) : kSucceeds;
}

static int outcome_of_path(const char* call, int folder, const char* name) {
  return outcome_of_paths(call, folder, name, AT_FDCWD, NULL);
}

// Defines a function `type name(parameters)` that returns `failed` if `result` says so, and else
// what the next definition returns for `arguments`.
#define CALL(type, name, parameters, arguments, result, failed) \
  type name parameters {                                        \
    REAL(name);                                                 \
    const int now = (result);                                   \
    if (now > kSucceeds) {                                      \
      errno = now;                                              \
      return failed;                                            \
    }                                                           \
    return real arguments;                                      \
  }

// The same for a call that may move a share of `size`.
#define MOVING(name, parameters, arguments, result, size) \
  ssize_t name parameters {                               \
    REAL(name);                                           \
    const int now = (result);                             \
    if (now > kSucceeds) {                                \
      errno = now;                                        \
      return -1;                                          \
    }                                                     \
    if (now == kShort && (size) > 1) (size) /= 2;         \
    return real arguments;                                \
  }

// clang-format off
MOVING(write, (int file, const void* data, size_t size), (file, data, size),
       outcome_of_file("write", file), size)
MOVING(pwrite, (int file, const void* data, size_t size, off_t place), (file, data, size, place),
       outcome_of_file("write", file), size)
MOVING(pwrite64, (int file, const void* data, size_t size, off64_t place),
       (file, data, size, place), outcome_of_file("write", file), size)
MOVING(writev, (int file, const struct iovec* parts, int count), (file, parts, count),
       outcome_of_file("write", file), count)
MOVING(pwritev, (int file, const struct iovec* parts, int count, off_t place),
       (file, parts, count, place), outcome_of_file("write", file), count)
MOVING(pwritev64, (int file, const struct iovec* parts, int count, off64_t place),
       (file, parts, count, place), outcome_of_file("write", file), count)
MOVING(copy_file_range, (int in, off64_t* in_place, int out, off64_t* out_place, size_t size,
       unsigned flags), (in, in_place, out, out_place, size, flags),
       outcome_of_file("write", out), size)
CALL(size_t, fwrite, (const void* data, size_t size, size_t count, FILE* stream),
     (data, size, count, stream), outcome_of_file("write", fileno(stream)), 0)
CALL(int, fflush, (FILE* stream), (stream),
     stream == NULL ? kSucceeds : outcome_of_file("write", fileno(stream)), EOF)

MOVING(read, (int file, void* data, size_t size), (file, data, size),
       outcome_of_file("read", file), size)
MOVING(pread, (int file, void* data, size_t size, off_t place), (file, data, size, place),
       outcome_of_file("read", file), size)
MOVING(pread64, (int file, void* data, size_t size, off64_t place), (file, data, size, place),
       outcome_of_file("read", file), size)

CALL(int, fsync, (int file), (file), outcome_of_file("sync", file), -1)
CALL(int, fdatasync, (int file), (file), outcome_of_file("sync", file), -1)

CALL(int, ftruncate, (int file, off_t size), (file, size), outcome_of_file("truncate", file), -1)
CALL(int, ftruncate64, (int file, off64_t size), (file, size), outcome_of_file("truncate", file),
     -1)
CALL(int, truncate, (const char* path, off_t size), (path, size),
     outcome_of_path("truncate", AT_FDCWD, path), -1)
CALL(int, truncate64, (const char* path, off64_t size), (path, size),
     outcome_of_path("truncate", AT_FDCWD, path), -1)
CALL(int, posix_fallocate, (int file, off_t place, off_t size), (file, place, size),
     outcome_of_file("truncate", file), now)
CALL(int, posix_fallocate64, (int file, off64_t place, off64_t size), (file, place, size),
     outcome_of_file("truncate", file), now)

CALL(int, rename, (const char* from, const char* to), (from, to),
     outcome_of_paths("rename", AT_FDCWD, from, AT_FDCWD, to), -1)
CALL(int, renameat, (int from_folder, const char* from, int to_folder, const char* to),
     (from_folder, from, to_folder, to),
     outcome_of_paths("rename", from_folder, from, to_folder, to), -1)
CALL(int, renameat2, (int from_folder, const char* from, int to_folder, const char* to,
     unsigned flags), (from_folder, from, to_folder, to, flags),
     outcome_of_paths("rename", from_folder, from, to_folder, to), -1)
CALL(int, link, (const char* from, const char* to), (from, to),
     outcome_of_paths("link", AT_FDCWD, from, AT_FDCWD, to), -1)
CALL(int, linkat, (int from_folder, const char* from, int to_folder, const char* to, int flags),
     (from_folder, from, to_folder, to, flags),
     outcome_of_paths("link", from_folder, from, to_folder, to), -1)
CALL(int, unlink, (const char* path), (path), outcome_of_path("unlink", AT_FDCWD, path), -1)
CALL(int, unlinkat, (int folder, const char* path, int flags), (folder, path, flags),
     outcome_of_path("unlink", folder, path), -1)
CALL(int, remove, (const char* path), (path), outcome_of_path("unlink", AT_FDCWD, path), -1)
CALL(int, rmdir, (const char* path), (path), outcome_of_path("unlink", AT_FDCWD, path), -1)
CALL(int, mkdir, (const char* path, mode_t mode), (path, mode),
     outcome_of_path("mkdir", AT_FDCWD, path), -1)
CALL(int, mkdirat, (int folder, const char* path, mode_t mode), (folder, path, mode),
     outcome_of_path("mkdir", folder, path), -1)

CALL(FILE*, fopen, (const char* path, const char* mode), (path, mode),
     outcome_of_path("open", AT_FDCWD, path), NULL)
CALL(FILE*, fopen64, (const char* path, const char* mode), (path, mode),
     outcome_of_path("open", AT_FDCWD, path), NULL)
CALL(int, creat, (const char* path, mode_t mode), (path, mode),
     outcome_of_path("open", AT_FDCWD, path), -1)
// What open() is called with _FORTIFY_SOURCE.
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
CALL(int, __open_2, (const char* path, int flags), (path, flags),
     outcome_of_path("open", AT_FDCWD, path), -1)
CALL(int, __open64_2, (const char* path, int flags), (path, flags),
     outcome_of_path("open", AT_FDCWD, path), -1)
// clang-format on

// The same for a call whose mode follows the flags where it may make a file.
#define OPENING(name, parameters, arguments, folder)                  \
  int name parameters {                                               \
    REAL(name);                                                       \
    mode_t mode = 0;                                                  \
    if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) { \
      va_list rest;                                                   \
      va_start(rest, flags);                                          \
      mode = va_arg(rest, mode_t);                                    \
      va_end(rest);                                                   \
    }                                                                 \
    const int now = outcome_of_path("open", folder, path);            \
    if (now > kSucceeds) {                                            \
      errno = now;                                                    \
      return -1;                                                      \
    }                                                                 \
    return real arguments;                                            \
  }

OPENING(open, (const char* path, int flags, ...), (path, flags, mode), AT_FDCWD)
OPENING(open64, (const char* path, int flags, ...), (path, flags, mode), AT_FDCWD)
OPENING(openat, (int folder, const char* path, int flags, ...), (folder, path, flags, mode), folder)
OPENING(openat64, (int folder, const char* path, int flags, ...), (folder, path, flags, mode),
        folder)

// The descriptor is closed before the call fails.
int close(int file) {
  REAL(close);
  const int now = outcome_of_file("close", file);
  const int closed = real(file);
  if (now > kSucceeds) errno = now;
  return now > kSucceeds ? -1 : closed;
}

int fclose(FILE* stream) {
  REAL(fclose);
  const int now = outcome_of_file("close", fileno(stream));
  const int closed = real(stream);
  if (now > kSucceeds) errno = now;
  return now > kSucceeds ? EOF : closed;
}
