#include "trace/hdf5/library/file.h"

#if H5_VERSION_GE(1, 12, 0)
#include <H5VLnative.h>
#endif

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <new>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "trace/hdf5/direct/chunked_range.h"
#include "trace/hdf5/direct/object_header.h"
#include "trace/hdf5/direct/raw_range.h"
#include "trace/hdf5/foreign_file.h"
#include "trace/hdf5/library/checked_driver.h"
#include "trace/hdf5/library/library.h"
#include "trace/hdf5/library/stored_dataset.h"

namespace ttrace::trace::hdf5 {
namespace {

constexpr std::size_t kCachedChunks = 12421;  // hash slots: a prime, as HDF5 asks for

// Groups kept open. A trace has one for each step, micro-batch and kind.
constexpr std::size_t kMostGroups = 64;

base::InputError no_such_dataset(const std::string& path, const std::string& dataset) {
  return base::input_error(path, ": ", dataset,
                           ": there is no such dataset; the manifest says this rank holds it");
}

// What cannot be read, in a file or a dataset of it, because its disk or network failed.
base::InputError cannot_be_read(const std::string& what, int error) {
  return base::input_error(what, ": cannot be read: ", base::reading_problem(error));
}

// Returns what `action` does with the library. Where it throws because a read of the file has
// failed, its reason is wrong (the library says that there is no such name), and this throws the
// error of the read instead. `failed`: the errno of such a read, or 0. It is kept for the file: the
// library does not read again what it has failed to read once, and says the same of every later
// name.
template <typename Action>
auto reading(const std::string& file, const std::string& what, int& failed, const Action& action) {
  const LibraryLock lock;
  const ReadingNote note(file);
  forget_read_error();
  try {
    return action();
  } catch (const base::InputError&) {
    if (first_read_error() != 0) failed = first_read_error();
    if (failed == 0) throw;
    throw cannot_be_read(what, failed);
  }
}

// A step of a path must be a real member of its group: a soft or external link could lead out of
// the file. `from` is the file or a group, `step` a path from there, `name` the step in full.
// Returns the address of its object header.
haddr_t require_hard_link(hid_t from, const std::string& step, const std::string& path,
                          const std::string& dataset, const std::string& name) {
  H5L_info_t info;
  if (H5Lget_info(from, step.c_str(), &info, H5P_DEFAULT) < 0) {
    H5Eclear2(H5E_DEFAULT);
    throw no_such_dataset(path, dataset);
  }
  if (info.type != H5L_TYPE_HARD) {
    throw base::input_error(path, ": ", name,
                            ": a soft or external link, which a trace may not contain; write the "
                            "dataset into the file itself");
  }
  return header_address(from, info);
}

// The length that a contiguous string of variable length states; nothing if it is unknown.
std::optional<std::uint64_t> stated_length(hid_t object, const std::optional<OpenFile>& opened,
                                           const std::string& what) {
  const haddr_t offset = H5Dget_offset(object);
  H5Eclear2(H5E_DEFAULT);
  if (!opened || offset == HADDR_UNDEF || offset > opened->end || opened->end - offset < 4) {
    return std::nullopt;
  }
  std::array<std::byte, 4> bytes{};
  RawRange{opened->descriptor, offset, bytes.size()}.read_all(bytes, what);
  return number_at(bytes, 0, bytes.size());
}

void require_readable_length(std::uint64_t bytes, const std::string& what) {
  if (bytes <= base::kLargestText) return;
  throw base::input_error(what, ": has ", bytes, " bytes, and at most ", base::kLargestText,
                          " (1 GiB) are read; no manifest is that large");
}

struct Listing {
  GroupListing members;
  std::size_t left = 0;
};

herr_t add_member(hid_t group, const char* name, const H5L_info_t* info, void* to) {
  auto& listing = *static_cast<Listing*>(to);
  // A damaged group may have more members than it says.
  if (listing.left == 0) return -1;
  --listing.left;
  if (info->type != H5L_TYPE_HARD) return 0;
  try {
    listing.members.add(name, header_address(group, *info));
  } catch (const std::bad_alloc&) {
    return -1;  // an exception may not pass through the library
  }
  return 0;
}

// Gives the library room for all that it reads of a large group while it lives. A group is listed
// in the order of the hashes of its names, which jumps about in the blocks that hold them: of a
// million members, the library read and checked most blocks many times, as it kept 2 MiB of them.
class RoomForListing {
 public:
  RoomForListing(hid_t group, hsize_t members) : file_(H5Iget_file_id(group), H5Fclose) {
    constexpr hsize_t kFew = 4096;  // fit in what the library keeps
    constexpr hsize_t kBytesPerMember = 128;
    constexpr hsize_t kMostBytes = hsize_t{128} << 20;  // the library's own limit
    if (members <= kFew) return;
    usual_.version = H5AC__CURR_CACHE_CONFIG_VERSION;
    if (H5Fget_mdc_config(file_.get(), &usual_) < 0) {
      H5Eclear2(H5E_DEFAULT);
      return;
    }
    H5AC_cache_config_t roomy = usual_;
    roomy.set_initial_size = true;
    roomy.max_size = static_cast<std::size_t>(std::min(members * kBytesPerMember, kMostBytes));
    roomy.max_size = std::max(roomy.max_size, usual_.max_size);
    roomy.initial_size = roomy.max_size;
    changed_ = H5Fset_mdc_config(file_.get(), &roomy) >= 0;
    H5Eclear2(H5E_DEFAULT);
  }
  ~RoomForListing() {
    if (!changed_) return;
    usual_.set_initial_size = true;
    H5Fset_mdc_config(file_.get(), &usual_);
    H5Eclear2(H5E_DEFAULT);
  }
  // Gives back what the library has kept of the group, 150 bytes a member: nobody will look there
  // again. Call it once the group was listed to its end.
  void forget(hid_t group) {
    if (!changed_) return;
    H5Grefresh(group);
    H5garbage_collect();
    H5Eclear2(H5E_DEFAULT);
  }
  RoomForListing(const RoomForListing&) = delete;
  RoomForListing& operator=(const RoomForListing&) = delete;

 private:
  Handle file_;
  H5AC_cache_config_t usual_{};
  bool changed_ = false;
};

}  // namespace

haddr_t header_address(hid_t object, const H5L_info_t& info) {
#if H5_VERSION_GE(1, 12, 0)
  haddr_t address = HADDR_UNDEF;
  H5VLnative_token_to_addr(object, info.u.token, &address);
  return address;
#else
  static_cast<void>(object);
  return info.u.address;
#endif
}

std::optional<GroupListing> list_group(hid_t group, std::size_t most) {
  H5G_info_t info;
  if (H5Gget_info(group, &info) < 0 || info.nlinks > most) {
    H5Eclear2(H5E_DEFAULT);
    return std::nullopt;
  }
  Listing listing{{}, info.nlinks};
  listing.members.reserve(info.nlinks);
  RoomForListing room(group, info.nlinks);
  if (H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, add_member, &listing) < 0) {
    H5Eclear2(H5E_DEFAULT);
    return std::nullopt;
  }
  room.forget(group);
  listing.members.settle();
  return std::move(listing.members);
}

File::File(std::string path, Handle file)
    : path_(std::move(path)), file_(std::move(file)), opened_(open_file_of(file_.get())) {
  if (opened_ && counts_from_start(file_.get())) direct_ = DirectFile::of(path_, *opened_);
}

std::shared_ptr<const File> File::open(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    throw base::input_error(
        path, ": ",
        error ? base::reading_problem(error.value()) : std::string("no such file or directory"));
  }
  // Opening a FIFO or a device could block for ever.
  if (!std::filesystem::is_regular_file(status)) {
    throw base::input_error(path, ": not a regular file");
  }
  if (is_declared_damaged(path)) {
    throw base::input_error(path,
                            ": the HDF5 library crashes on it, so the file is damaged; dump again");
  }
  const LibraryLock lock;
  const ReadingNote note(path);
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  use_checked_driver(access.get());
  // For chunks that only the library can read: boxes are narrower than chunks, and with the
  // default of 1 MiB every chunk would be inflated again for each of them.
  H5Pset_cache(access.get(), 0, kCachedChunks, ChunkedRange::kKeptBytes, 1.0);
  // Datasets that are still open keep the file open: a reader may outlive the cache of files.
  H5Pset_fclose_degree(access.get(), H5F_CLOSE_WEAK);
  forget_read_error();
  Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
  if (!file && last_open_error() != 0) {
    H5Eclear2(H5E_DEFAULT);
    throw base::input_error(path, ": cannot be opened: ", base::reading_problem(last_open_error()));
  }
  if (!file && first_read_error() != 0) {
    H5Eclear2(H5E_DEFAULT);
    throw cannot_be_read(path, first_read_error());
  }
  if (!file) {
    const std::string foreign = describe_foreign_file(path);
    if (!foreign.empty()) throw base::input_error(path, ": ", foreign);
    throw base::input_error(path, ": not a readable HDF5 file (", base::printable(last_error()),
                            "); was the job killed while it wrote?");
  }
  return std::shared_ptr<const File>(new File(path, std::move(file)));
}

bool File::has(const std::string& dataset) const {
  return reading(path_, path_ + ": " + dataset, failed_read_, [&] {
    const htri_t found = H5Lexists(file_.get(), dataset.c_str(), H5P_DEFAULT);
    H5Eclear2(H5E_DEFAULT);
    if (found <= 0 && first_read_error() != 0) throw cannot_be_read(path_, first_read_error());
    return found > 0;
  });
}

// Returns the group of a dataset. Checks the links on the way to it when it is opened first.
const Handle& File::group_of(const std::string& dataset) const {
  const std::string name = dataset.substr(0, dataset.rfind('/'));
  if (const auto known = groups_.find(name); known != groups_.end()) return known->second;
  for (std::size_t end = name.find('/', 1); !name.empty(); end = name.find('/', end + 1)) {
    const std::string prefix = name.substr(0, end);
    require_hard_link(file_.get(), prefix, path_, dataset, prefix);
    if (end == std::string::npos) break;
  }
  Handle group(H5Oopen(file_.get(), name.empty() ? "/" : name.c_str(), H5P_DEFAULT), H5Oclose);
  if (!group || H5Iget_type(group.get()) != H5I_GROUP) {
    H5Eclear2(H5E_DEFAULT);
    throw no_such_dataset(path_, dataset);
  }
  if (groups_.size() >= kMostGroups) groups_.clear();
  return groups_.emplace(name, std::move(group)).first->second;
}

// Returns null if the dataset has to be opened through the library. Looks up all members of its
// group at once: one by one, each would wait for the lock of the library.
std::unique_ptr<Dataset> File::open_past_library(const std::string& dataset) const {
  const std::size_t slash = dataset.rfind('/');
  const std::string group = dataset.substr(0, slash);
  if (direct_->has_listing(group)) return direct_->open(dataset);
  const haddr_t address = reading(path_, path_ + ": " + dataset, failed_read_, [&] {
    // Another thread may have listed it meanwhile.
    if (direct_->has_listing(group)) return HADDR_UNDEF;
    const hid_t opened = group_of(dataset).get();
    if (auto listing = list_group(opened, DirectFile::room())) {
      direct_->add_listing(group, *std::move(listing));
      return HADDR_UNDEF;
    }
    return require_hard_link(opened, dataset.substr(slash + 1), path_, dataset, dataset);
  });
  return address == HADDR_UNDEF ? direct_->open(dataset) : direct_->open_at(address, dataset);
}

Handle File::open_object(const std::string& dataset) const {
  const Handle& group = group_of(dataset);
  const std::string member = dataset.substr(dataset.rfind('/') + 1);
  require_hard_link(group.get(), member, path_, dataset, dataset);
  Handle object(H5Oopen(group.get(), member.c_str(), H5P_DEFAULT), H5Oclose);
  if (!object || H5Iget_type(object.get()) != H5I_DATASET) {
    H5Eclear2(H5E_DEFAULT);
    throw base::input_error(path_, ": ", dataset, ": not a dataset");
  }
  return object;
}

std::unique_ptr<Dataset> File::open_dataset(const std::string& dataset) const {
  if (direct_) {
    if (auto opened = open_past_library(dataset)) return opened;
  }
  return reading(path_, path_ + ": " + dataset, failed_read_, [&] {
    return std::make_unique<StoredDataset>(path_, dataset, open_object(dataset), opened_);
  });
}

std::string File::read_string(const std::string& dataset) const {
  const std::string what = path_ + ": " + dataset;
  return reading(path_, what, failed_read_, [&] { return string_in(open_object(dataset), what); });
}

std::string File::string_in(const Handle& object, const std::string& what) const {
  const Handle type(H5Dget_type(object.get()), H5Tclose);
  const Handle space(H5Dget_space(object.get()), H5Sclose);
  const Handle creation(H5Dget_create_plist(object.get()), H5Pclose);
  if (H5Tget_class(type.get()) != H5T_STRING || H5Sget_simple_extent_npoints(space.get()) != 1) {
    throw base::input_error(what, ": not a single string");
  }
  require_plain_storage(creation.get(), what);
  if (H5Tis_variable_str(type.get()) > 0) {
    const auto length = stated_length(object.get(), opened_, what);
    require_readable_length(length.value_or(0), what);
    const Handle memory(H5Tcopy(type.get()), H5Tclose);
    char* text = nullptr;
    if (H5Dread(object.get(), memory.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, &text) < 0) {
      throw base::input_error(what, ": ", base::printable(last_error()));
    }
    std::string value = text == nullptr ? "" : text;
    H5free_memory(text);
    return value;
  }
  const std::size_t size = H5Tget_size(type.get());
  require_readable_length(size, what);
  if (H5Dget_storage_size(object.get()) < size) {
    throw base::input_error(what, ": a string of ", size, " bytes is not stored in the file");
  }
  std::vector<char> text(size);
  if (H5Dread(object.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()) < 0) {
    throw base::input_error(what, ": ", base::printable(last_error()));
  }
  return {text.data(), strnlen(text.data(), size)};
}

std::optional<std::uint64_t> File::root_attribute(const std::string& name) const {
  const auto value =
      reading(path_, path_, failed_read_, [&] { return read_attribute(file_.get(), name, path_); });
  if (!value) return std::nullopt;
  if (const auto* number = std::get_if<std::uint64_t>(&*value)) return *number;
  throw base::input_error(path_, ": the attribute ", name, " of / is not a whole number");
}

}  // namespace ttrace::trace::hdf5
