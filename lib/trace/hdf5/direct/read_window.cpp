#include "trace/hdf5/direct/read_window.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

namespace ttrace::trace::hdf5 {
namespace {

// Where a thread begins to read a file, or reads on far away, it reads this much: headers of large
// tensors lie far apart, and what lies between them is not read through a window.
constexpr std::uint64_t kLeastWindowBytes = std::uint64_t{1} << 12;

class Window {
 public:
  // Of an open file, or 0 if the window shows nothing.
  std::uint64_t opening() const { return opening_; }
  std::uint64_t last_used() const { return last_used_; }
  void use(std::uint64_t time) { last_used_ = time; }
  void close() { opening_ = 0; }

  bool holds(std::uint64_t offset, std::size_t bytes) const {
    return offset >= begin_ && offset - begin_ <= size_ && bytes <= size_ - (offset - begin_);
  }
  // How far `offset` is from where the window begins.
  std::uint64_t distance(std::uint64_t offset) const {
    return offset > begin_ ? offset - begin_ : begin_ - offset;
  }
  const std::byte* at(std::uint64_t offset) const { return bytes_.data() + (offset - begin_); }

  // Reads twice as much as the last time, as a thread that stays near reads one small tensor after
  // the other. Returns whether the window then holds `wanted` bytes from `offset` on.
  bool move(const OpenFile& file, std::uint64_t offset, std::size_t wanted) {
    return fill(file, offset, wanted, std::min<std::uint64_t>(2 * ahead_, kMostWindowBytes));
  }
  // The same for a place far from all windows.
  bool open(const OpenFile& file, std::uint64_t offset, std::size_t wanted) {
    return fill(file, offset, wanted, kLeastWindowBytes);
  }

 private:
  bool fill(const OpenFile& file, std::uint64_t offset, std::size_t wanted, std::uint64_t ahead) {
    const std::uint64_t length =
        std::min(std::max<std::uint64_t>(ahead, wanted), file.end - offset);
    bytes_.resize(std::max<std::size_t>(bytes_.size(), length));
    opening_ = file.opening;
    begin_ = offset;
    ahead_ = ahead;
    size_ = 0;
    while (size_ < length) {
      const ssize_t got = ::pread(file.descriptor, bytes_.data() + size_, length - size_,
                                  static_cast<off_t>(offset + size_));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      size_ += static_cast<std::uint64_t>(got);
    }
    return size_ >= wanted;
  }

  std::uint64_t opening_ = 0;
  std::uint64_t begin_ = 0;  // in the file
  std::uint64_t size_ = 0;   // of what was read there
  std::uint64_t ahead_ = 0;  // what was to be read
  std::uint64_t last_used_ = 0;
  std::vector<std::byte> bytes_;
};

// The windows of one thread.
class Windows {
 public:
  // Returns a window that holds the bytes, or null if they cannot be read, or if the file has been
  // written when a window was filled with them.
  const Window* on(const OpenFile& file, std::uint64_t offset, std::size_t bytes) {
    Window* nearest = nullptr;
    Window* oldest = windows_.data();
    for (Window& window : windows_) {
      if (window.last_used() < oldest->last_used()) oldest = &window;
      if (window.opening() != file.opening) continue;
      if (window.holds(offset, bytes)) return used(window);
      if (nearest == nullptr || window.distance(offset) < nearest->distance(offset)) {
        nearest = &window;
      }
    }
    const bool is_near = nearest != nullptr && nearest->distance(offset) <= 2 * kMostWindowBytes;
    Window& window = is_near ? *nearest : *oldest;
    const bool filled =
        is_near ? window.move(file, offset, bytes) : window.open(file, offset, bytes);
    if (filled && file.is_unchanged()) return used(window);
    window.close();
    return nullptr;
  }

  // Forgets what was read of the file.
  void close(std::uint64_t opening) {
    for (Window& window : windows_) {
      if (window.opening() == opening) window.close();
    }
  }

 private:
  const Window* used(Window& window) {
    window.use(++time_);
    return &window;
  }

  std::array<Window, kMostWindows> windows_;
  std::uint64_t time_ = 0;
};

}  // namespace

bool read_in_window(const OpenFile& file, std::uint64_t offset, std::span<std::byte> out,
                    Unwritten unwritten) {
  if (file.opening == 0 || out.size() > kLargestWindowRead) return false;
  thread_local Windows windows;
  const Window* const window = windows.on(file, offset, out.size());
  // What was read a while ago counts as read now if nobody has written since.
  if (window == nullptr || (unwritten == Unwritten::kNow && !file.is_unchanged())) {
    windows.close(file.opening);
    return false;
  }
  std::memcpy(out.data(), window->at(offset), out.size());
  return true;
}

}  // namespace ttrace::trace::hdf5
