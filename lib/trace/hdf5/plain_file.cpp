#include "trace/hdf5/plain_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

#include "base/error.h"
#include "trace/hdf5/plain_header.h"
#include "trace/hdf5/raw_range.h"

namespace ttrace::trace::hdf5 {
namespace {

constexpr std::size_t kMostListed = std::size_t{1} << 21;  // 32 MiB

std::atomic<std::size_t> listed{0};  // members in the listings of all files

std::atomic<std::size_t> open_descriptors{0};  // of all such files

// The other half, some hundreds at least, is for the library, which fails where it gets none.
std::size_t half_of_descriptors() {
  constexpr rlim_t kLeast = 1024;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < kLeast) return 0;
  return limit.rlim_cur / 2;
}

class PlainDataset : public Dataset {
 public:
  PlainDataset(std::shared_ptr<const PlainFile> file, std::string path, PlainHeader header,
               const OpenFile& opened)
      : file_(std::move(file)),
        path_(std::move(path)),
        facts_(std::move(header.facts)),
        opened_(opened),
        raw_{opened.descriptor, header.offset, header.bytes} {}

  const DatasetFacts& facts() const override { return facts_; }

  void read(const tensor::Box& box, std::span<std::byte> out) const override {
    const std::size_t element_bytes = tensor::element_bytes(facts_.dtype);
    if (out.size() != tensor::volume(box) * element_bytes) {
      throw base::internal_error("reading ", tensor::to_string(box), " into ", out.size(),
                                 " bytes");
    }
    if (out.empty()) return;
    const std::string what = file_->path() + ": " + path_;
    raw_.read_box(facts_.shape, element_bytes, box, out, what);
    opened_.require_unchanged(what);
  }

 private:
  std::shared_ptr<const PlainFile> file_;  // keeps the descriptor
  std::string path_;
  DatasetFacts facts_;
  OpenFile opened_;
  RawRange raw_;
};

}  // namespace

std::shared_ptr<PlainFile> PlainFile::of(std::string path, const OpenFile& opened) {
  static const std::size_t most = half_of_descriptors();
  OpenFile mine = opened;
  if (open_descriptors.fetch_add(1) >= most ||
      (mine.descriptor = ::fcntl(opened.descriptor, F_DUPFD_CLOEXEC, 0)) < 0) {
    --open_descriptors;
    return nullptr;
  }
  return std::shared_ptr<PlainFile>(new PlainFile(std::move(path), mine));
}

PlainFile::~PlainFile() {
  for (const auto& [group, listing] : listings_) listed -= listing.size();
  ::close(opened_.descriptor);
  --open_descriptors;
}

std::unique_ptr<Dataset> PlainFile::open(const std::string& dataset) const {
  const std::size_t slash = dataset.rfind('/');
  haddr_t address = HADDR_UNDEF;
  {
    const std::shared_lock reading(mutex_);
    const auto group = listings_.find(dataset.substr(0, slash));
    if (group == listings_.end()) return nullptr;
    address = group->second.address_of(std::string_view(dataset).substr(slash + 1));
  }
  return open_at(address, dataset);
}

std::unique_ptr<Dataset> PlainFile::open_at(haddr_t address, const std::string& dataset) const {
  if (address == HADDR_UNDEF) return nullptr;
  auto header = read_plain_header(opened_, address, path_ + ": " + dataset);
  if (!header) return nullptr;
  return std::make_unique<PlainDataset>(shared_from_this(), dataset, *std::move(header), opened_);
}

bool PlainFile::has_listing(const std::string& group) const {
  const std::shared_lock reading(mutex_);
  return listings_.contains(group);
}

void PlainFile::add_listing(const std::string& group, GroupListing listing) {
  const std::size_t members = listing.size();
  if (listed.fetch_add(members) + members > kMostListed) {
    listed -= members;
    return;
  }
  const std::unique_lock writing(mutex_);
  if (!listings_.emplace(group, std::move(listing)).second) listed -= members;
}

std::size_t PlainFile::room() {
  const std::size_t taken = listed;
  return taken < kMostListed ? kMostListed - taken : 0;
}

}  // namespace ttrace::trace::hdf5
