#include "trace/range/range_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>

#include "base/error.h"
#include "trace/range/raw_range.h"

namespace ttrace::trace::range {
namespace {

std::atomic<std::size_t> entries{0};           // of the tables of all files
std::atomic<std::size_t> open_descriptors{0};  // of all such files

// The other half, at least 512, is for HDF5, which fails if it gets none.
std::size_t half_of_descriptors() {
  constexpr rlim_t kLeast = 1024;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < kLeast) return 0;
  return limit.rlim_cur / 2;
}

class RangeDataset : public Dataset {
 public:
  RangeDataset(std::shared_ptr<const RangeFile> file, std::string name, StoredRange range,
               const OpenFile& opened)
      : file_(std::move(file)),
        name_(std::move(name)),
        facts_(std::move(range.facts)),
        opened_(opened),
        raw_{opened.descriptor, range.offset, *tensor::byte_count(facts_.shape, facts_.dtype)} {}

  const DatasetFacts& facts() const override { return facts_; }

  void read(const tensor::Box& box, std::span<std::byte> out) const override {
    const std::size_t element_bytes = tensor::element_bytes(facts_.dtype);
    if (out.size() != tensor::volume(box) * element_bytes) {
      throw base::internal_error("reading ", tensor::to_string(box), " into ", out.size(),
                                 " bytes");
    }
    if (out.empty()) return;
    const std::string what = file_->path() + ": " + name_;
    raw_.read_box(facts_.shape, element_bytes, box, out, what);
    opened_.require_unchanged(what);
  }

 private:
  std::shared_ptr<const RangeFile> file_;  // keeps the descriptor
  std::string name_;
  DatasetFacts facts_;
  OpenFile opened_;
  RawRange raw_;
};

}  // namespace

RangeFile::RangeFile(std::string path, const OpenFile& opened, RangeTable table)
    : path_(std::move(path)), opened_(opened), table_(std::move(table)) {
  static const std::size_t most = half_of_descriptors();
  const bool has_memory = entries.fetch_add(table_.size()) + table_.size() <= kMostRanges;
  has_room_ = open_descriptors.fetch_add(1) < most && has_memory;
}

std::shared_ptr<const RangeFile> RangeFile::of(std::string path, const OpenFile& opened,
                                               RangeTable table) {
  OpenFile mine = opened;
  mine.descriptor = ::fcntl(opened.descriptor, F_DUPFD_CLOEXEC, 0);
  if (mine.descriptor < 0) return nullptr;
  return std::shared_ptr<const RangeFile>(new RangeFile(std::move(path), mine, std::move(table)));
}

RangeFile::~RangeFile() {
  entries -= table_.size();
  --open_descriptors;
  ::close(opened_.descriptor);
}

std::unique_ptr<Dataset> RangeFile::open(const std::string& dataset) const {
  auto range = table_.find(dataset);
  if (!range) return nullptr;
  return std::make_unique<RangeDataset>(shared_from_this(), dataset, *std::move(range), opened_);
}

}  // namespace ttrace::trace::range
