#include "trace/hdf5/direct/direct_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <functional>
#include <mutex>
#include <numeric>
#include <span>
#include <string_view>

#include "base/error.h"
#include "trace/hdf5/direct/object_header.h"
#include "trace/hdf5/direct/raw_range.h"
#include "trace/hdf5/direct/read_window.h"
#include "trace/hdf5/library/datatype.h"

namespace ttrace::trace::hdf5 {
namespace {

using MessageBytes = std::span<const std::byte>;

// Messages of an object header, by their numbers in the format's specification, IV.A.2.
enum Message : std::uint64_t {
  kNil = 0x00,
  kDataspace = 0x01,
  kDatatype = 0x03,
  kOldFillValue = 0x04,
  kFillValue = 0x05,
  kLayout = 0x08,
  kAttribute = 0x0c,
  kOldTime = 0x0e,
  kContinuation = 0x10,
  kTime = 0x12,
};

constexpr std::size_t kPrefixBytes = 16;
constexpr std::size_t kMessagePrefixBytes = 8;
constexpr std::size_t kFirstRead = 512;  // holds most headers whole
constexpr std::uint64_t kLargestMessageBlock = std::uint64_t{1} << 16;
constexpr std::size_t kMostMessageBlocks = 4;

std::optional<tensor::Shape> shape_in(MessageBytes message) {
  if (message.size() < 4) return std::nullopt;
  const std::uint64_t version = number_at(message, 0, 1);
  const std::uint64_t rank = number_at(message, 1, 1);
  const std::size_t begin = version == 1 ? 8 : 4;
  // Flags above 1, a permutation, were never used. Version 2 says that a shape is simple (1), a
  // scalar (0) or none (2); version 1 has scalars as rank 0.
  if ((version != 1 && version != 2) || number_at(message, 2, 1) > 1 ||
      (version == 2 && number_at(message, 3, 1) != (rank == 0 ? 0 : 1)) ||
      rank > tensor::kMostDimensions || message.size() < begin + 8 * rank) {
    return std::nullopt;
  }
  tensor::Shape shape(rank);
  for (std::size_t d = 0; d < rank; ++d) shape[d] = number_at(message, begin + 8 * d, 8);
  return shape;
}

// Whether the attribute is not the one that repeats the element type, or agrees with it.
bool agrees(MessageBytes message, tensor::DType dtype) {
  const auto attribute = parse_attribute(message);
  if (!attribute) return false;
  if (attribute->name != "ttrace_dtype") return true;
  const auto text = fixed_string(*attribute);
  return text && *text == tensor::dtype_name(dtype);
}

// What has been found in the messages so far.
struct Found {
  std::optional<tensor::DType> dtype;
  std::optional<tensor::Shape> shape;
  std::optional<std::pair<std::uint64_t, std::uint64_t>> layout;  // offset and bytes
  std::vector<std::vector<std::byte>> attributes;
};

std::optional<std::pair<std::uint64_t, std::uint64_t>> layout_in(MessageBytes message) {
  constexpr std::uint64_t kContiguous = 1;
  if (message.size() < 18) return std::nullopt;
  const std::uint64_t version = number_at(message, 0, 1);
  if ((version != 3 && version != 4) || number_at(message, 1, 1) != kContiguous)
    return std::nullopt;
  return std::pair(number_at(message, 2, 8), number_at(message, 10, 8));
}

// False: the header is not of the simplest kind.
bool take(std::uint64_t kind, MessageBytes message, Found& found) {
  switch (kind) {
    case kDatatype:
      if (found.dtype) return false;
      found.dtype = recognise_stored_datatype(message);
      return found.dtype.has_value();
    case kDataspace:
      if (found.shape) return false;
      found.shape = shape_in(message);
      return found.shape.has_value();
    case kLayout:
      if (found.layout) return false;
      found.layout = layout_in(message);
      return found.layout.has_value();
    case kAttribute:
      found.attributes.emplace_back(message.begin(), message.end());
      return true;
    case kNil:
    case kOldFillValue:
    case kFillValue:
    case kOldTime:
    case kTime:
      return true;
    default:
      return false;
  }
}

struct MessageBlock {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// Takes the messages of one block, and adds the blocks that they name to `blocks`.
bool take_all(MessageBytes block, std::uint64_t& left, std::vector<MessageBlock>& blocks,
              Found& found) {
  std::size_t at = 0;
  while (left > 0 && block.size() - at >= kMessagePrefixBytes) {
    const std::uint64_t kind = number_at(block, at, 2);
    const std::size_t size = number_at(block, at + 2, 2);
    const std::uint64_t flags = number_at(block, at + 4, 1);
    at += kMessagePrefixBytes;
    // Flag 1, shared, has the message elsewhere. Constant messages (0) are the rule.
    if (size > block.size() - at || (flags & ~std::uint64_t{1}) != 0) return false;
    const MessageBytes message = block.subspan(at, size);
    at += size;
    --left;
    if (kind != kContinuation) {
      if (!take(kind, message, found)) return false;
      continue;
    }
    if (size < 16) return false;
    blocks.push_back({number_at(message, 0, 8), number_at(message, 8, 8)});
    if (blocks.size() > kMostMessageBlocks) return false;
  }
  return true;
}

constexpr std::size_t kMostListed = std::size_t{1} << 21;  // 32 MiB

std::atomic<std::size_t> listed{0};  // members in the listings of all files

std::atomic<std::size_t> open_descriptors{0};  // of all such files

// The other half, at least 512, is for the library, which fails if it gets none.
std::size_t half_of_descriptors() {
  constexpr rlim_t kLeast = 1024;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < kLeast) return 0;
  return limit.rlim_cur / 2;
}

std::uint64_t hash_of(std::string_view name) { return std::hash<std::string_view>{}(name); }

class DirectDataset : public Dataset {
 public:
  DirectDataset(std::shared_ptr<const DirectFile> file, std::string path, DatasetHeader header,
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
    if (out.size() == raw_.bytes && read_in_window(opened_, raw_.offset, out)) return;
    const std::string what = file_->path() + ": " + path_;
    raw_.read_box(facts_.shape, element_bytes, box, out, what);
    opened_.require_unchanged(what);
  }

 private:
  std::shared_ptr<const DirectFile> file_;  // keeps the descriptor
  std::string path_;
  DatasetFacts facts_;
  OpenFile opened_;
  RawRange raw_;
};

}  // namespace

std::optional<DatasetHeader> read_dataset_header(const OpenFile& file, std::uint64_t address,
                                                 const std::string& what) {
  if (address > file.end || file.end - address < kPrefixBytes) return std::nullopt;
  const auto first = read_header_bytes(
      file, address, std::min<std::uint64_t>(kFirstRead, file.end - address), what);
  if (!first || number_at(*first, 0, 1) != 1) return std::nullopt;
  std::uint64_t messages = number_at(*first, 2, 2);
  const std::uint64_t bytes = number_at(*first, 8, 4);
  std::vector<MessageBlock> blocks{{address + kPrefixBytes, bytes}};
  Found found;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const MessageBlock block = blocks[i];
    if (i == 0 && bytes <= first->size() - kPrefixBytes) {
      if (!take_all(MessageBytes(*first).subspan(kPrefixBytes, bytes), messages, blocks, found))
        return {};
      continue;
    }
    if (block.bytes > kLargestMessageBlock) return std::nullopt;
    const auto more = read_header_bytes(file, block.offset, block.bytes, what);
    if (!more || !take_all(*more, messages, blocks, found)) return std::nullopt;
  }
  if (messages > 0 || !found.dtype || !found.shape || !found.layout) return std::nullopt;
  const tensor::DType dtype = *found.dtype;
  const auto [offset, stored] = *found.layout;
  const auto wanted = tensor::byte_count(*found.shape, dtype);
  if (!wanted || *wanted == 0 || stored < *wanted || offset > file.end ||
      *wanted > file.end - offset ||
      !std::all_of(found.attributes.begin(), found.attributes.end(),
                   [&](const auto& attribute) { return agrees(attribute, dtype); })) {
    return std::nullopt;
  }
  return DatasetHeader{{dtype, *std::move(found.shape)}, offset, *wanted};
}

void GroupListing::add(std::string_view name, haddr_t address) {
  members_.emplace_back(hash_of(name), address);
}

void GroupListing::settle() {
  constexpr std::size_t kMembersPerBucket = 4;
  std::sort(members_.begin(), members_.end());
  bucket_bits_ = static_cast<unsigned>(std::bit_width(members_.size() / kMembersPerBucket));
  buckets_.assign((std::size_t{1} << bucket_bits_) + 1, 0);
  for (const auto& [hash, address] : members_) ++buckets_[bucket_of(hash) + 1];
  std::partial_sum(buckets_.begin(), buckets_.end(), buckets_.begin());
}

haddr_t GroupListing::address_of(std::string_view name) const {
  if (buckets_.empty()) return HADDR_UNDEF;
  const std::uint64_t hash = hash_of(name);
  const std::size_t bucket = bucket_of(hash);
  haddr_t address = HADDR_UNDEF;
  for (std::uint32_t i = buckets_[bucket]; i < buckets_[bucket + 1]; ++i) {
    if (members_[i].first != hash) continue;
    if (address != HADDR_UNDEF) return HADDR_UNDEF;
    address = members_[i].second;
  }
  return address;
}

std::shared_ptr<DirectFile> DirectFile::of(std::string path, const OpenFile& opened) {
  static const std::size_t most = half_of_descriptors();
  OpenFile mine = opened;
  if (open_descriptors.fetch_add(1) >= most ||
      (mine.descriptor = ::fcntl(opened.descriptor, F_DUPFD_CLOEXEC, 0)) < 0) {
    --open_descriptors;
    return nullptr;
  }
  return std::shared_ptr<DirectFile>(new DirectFile(std::move(path), mine));
}

DirectFile::~DirectFile() {
  for (const auto& [group, listing] : listings_) listed -= listing.size();
  ::close(opened_.descriptor);
  --open_descriptors;
}

std::unique_ptr<Dataset> DirectFile::open(const std::string& dataset) const {
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

std::unique_ptr<Dataset> DirectFile::open_at(haddr_t address, const std::string& dataset) const {
  if (address == HADDR_UNDEF) return nullptr;
  auto header = read_dataset_header(opened_, address, path_ + ": " + dataset);
  if (!header) return nullptr;
  return std::make_unique<DirectDataset>(shared_from_this(), dataset, *std::move(header), opened_);
}

bool DirectFile::has_listing(const std::string& group) const {
  const std::shared_lock reading(mutex_);
  return listings_.contains(group);
}

void DirectFile::add_listing(const std::string& group, GroupListing listing) {
  const std::size_t members = listing.size();
  if (listed.fetch_add(members) + members > kMostListed) {
    listed -= members;
    return;
  }
  const std::unique_lock writing(mutex_);
  if (!listings_.emplace(group, std::move(listing)).second) listed -= members;
}

std::size_t DirectFile::room() {
  const std::size_t taken = listed;
  return taken < kMostListed ? kMostListed - taken : 0;
}

}  // namespace ttrace::trace::hdf5
