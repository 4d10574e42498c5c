#include "trace/range/raw_range.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "tensor/run_cursor.h"

namespace ttrace::trace::range {
namespace {

// The rows of a box are not contiguous. One call that also reads the bytes between them is faster
// than a call for each row, unless there are many more bytes between them than in them, or a row is
// at least kLargeRun long.
constexpr std::uint64_t kWorthwhileSurplus = 4;
constexpr std::uint64_t kLargeRun = std::uint64_t{1} << 14;
constexpr std::uint64_t kLargestSpan = std::uint64_t{1} << 23;

void read_bytes(int descriptor, std::uint64_t offset, std::span<std::byte> out,
                const std::string& what) {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(descriptor, out.data() + done, out.size() - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw base::input_error(what, ": cannot be read (", base::reading_problem(errno), ")");
    if (got == 0) {
      throw base::input_error(what,
                              ": cannot be read: the file has become shorter since it was "
                              "opened; is a job still writing it?");
    }
    done += static_cast<std::size_t>(got);
  }
}

}  // namespace

void RawRange::read_all(std::span<std::byte> out, const std::string& what) const {
  read_bytes(descriptor, offset, out, what);
}

void RawRange::read_box(const tensor::Shape& shape, std::size_t element_bytes,
                        const tensor::Box& box, std::span<std::byte> out,
                        const std::string& what) const {
  if (out.empty()) return;
  tensor::RunCursor cursor(box, tensor::whole(shape));
  const std::uint64_t first = cursor.offset();
  if (cursor.is_one_run()) {
    return read_bytes(descriptor, offset + first * element_bytes, out, what);
  }
  tensor::Shape corner = box.origin;
  for (std::size_t d = 0; d < corner.size(); ++d) corner[d] += box.extent[d] - 1;
  const std::uint64_t span = (tensor::position(shape, corner) + 1 - first) * element_bytes;
  const std::uint64_t run = cursor.left_in_run() * element_bytes;
  if (run < kLargeRun && span <= kLargestSpan && span / kWorthwhileSurplus <= out.size()) {
    thread_local std::vector<std::byte> all;
    all.resize(span);
    read_bytes(descriptor, offset + first * element_bytes, all, what);
    // The cursor counts from the start of the array, the buffer begins at the first element.
    for (std::size_t at = 0; at < out.size(); at += run) {
      std::memcpy(out.data() + at, all.data() + (cursor.offset() - first) * element_bytes, run);
      cursor.skip(cursor.left_in_run());
    }
    return;
  }
  for (std::size_t at = 0; at < out.size(); at += run) {
    read_bytes(descriptor, offset + cursor.offset() * element_bytes, out.subspan(at, run), what);
    cursor.skip(cursor.left_in_run());
  }
}

}  // namespace ttrace::trace::range
