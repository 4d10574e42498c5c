#include "trace/hdf5/library/file.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "trace/foreign_file.h"
#include "trace/hdf5/direct/chunked_range.h"
#include "trace/hdf5/direct/object_header.h"
#include "trace/hdf5/library/checked_driver.h"
#include "trace/hdf5/library/library.h"
#include "trace/hdf5/library/stored_dataset.h"
#include "trace/hdf5/sealed_ranges.h"
#include "trace/range/raw_range.h"

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
H5L_info_t require_hard_link(hid_t from, const std::string& step, const std::string& path,
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
  return info;
}

// Opens the object of the hard link `info`, in the file of `from`, without a second search for its
// name.
Handle open_linked(hid_t from, const H5L_info_t& info) {
#if H5_VERSION_GE(1, 12, 0)
  return {H5Oopen_by_token(from, info.u.token), H5Oclose};
#else
  return {H5Oopen_by_addr(from, info.u.address), H5Oclose};
#endif
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
  range::RawRange{opened->descriptor, offset, bytes.size()}.read_all(bytes, what);
  return number_at(bytes, 0, bytes.size());
}

void require_readable_length(std::uint64_t bytes, const std::string& what) {
  if (bytes <= base::kLargestText) return;
  throw base::input_error(what, ": has ", bytes, " bytes, and at most ", base::kLargestText,
                          " (1 GiB) are read; no manifest is that large");
}

// Opening as many takes half a second.
constexpr std::size_t kManyOpened = 10'000;

// By the library, though their elements lie in one piece, in all files of the process.
std::atomic<std::size_t> slowly_opened{0};

void warn_of_slow_opening(const std::string& path, std::string_view why) {
  static std::atomic<bool> has_warned{false};
  if (has_warned.exchange(true)) return;
  base::warn(base::concat(base::printable(path), ": ", base::printable(why),
                          ", so HDF5 opens its tensors one at a time, which takes 50 µs each and "
                          "changes no result; `ttrace merge` writes the trace anew with a table"));
}

}  // namespace

File::File(std::string path, Handle file, bool grows)
    : path_(std::move(path)), file_(std::move(file)), opened_(open_file_of(file_.get())) {
  if (opened_) opened_->grows = grows;
}

std::shared_ptr<const File> File::open(const std::string& path, bool grows) {
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
  return std::shared_ptr<const File>(new File(path, std::move(file), grows));
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

Handle File::open_object(const std::string& dataset) const {
  const Handle& group = group_of(dataset);
  const std::string member = dataset.substr(dataset.rfind('/') + 1);
  const H5L_info_t link = require_hard_link(group.get(), member, path_, dataset, dataset);
  Handle object = open_linked(group.get(), link);
  if (!object || H5Iget_type(object.get()) != H5I_DATASET) {
    H5Eclear2(H5E_DEFAULT);
    throw base::input_error(path_, ": ", dataset, ": not a dataset");
  }
  return object;
}

std::unique_ptr<Dataset> File::open_dataset(const std::string& dataset) const {
  if (const auto known = ranges()) {
    if (auto opened = known->open(dataset)) return opened;
  }
  auto opened = open_by_library(dataset);
  if (opened->offset() && ++slowly_opened == kManyOpened) {
    warn_of_slow_opening(path_, "has no table of ranges");
  }
  return opened;
}

std::unique_ptr<StoredDataset> File::open_by_library(const std::string& dataset) const {
  return reading(path_, path_ + ": " + dataset, failed_read_, [&] {
    return std::make_unique<StoredDataset>(path_, dataset, open_object(dataset), opened_);
  });
}

std::optional<PlacedTable> File::ranges_table() const {
  if (!has(kRangesDataset)) return std::nullopt;
  std::unique_ptr<StoredDataset> stored;
  try {
    stored = open_by_library(kRangesDataset);
  } catch (const base::InputError&) {
    // A group, a link or a type that no tensor has.
  }
  const DatasetFacts facts = stored ? stored->facts() : DatasetFacts{};
  if (!stored || !stored->offset() || facts.dtype != tensor::DType::kUInt8 ||
      facts.shape.size() != 1 || facts.shape[0] > kLargestRangesTable) {
    throw base::input_error("what stands at ", kRangesDataset, " is no table of ranges");
  }
  std::string text(facts.shape[0], '\0');
  stored->read(tensor::whole(facts.shape), std::as_writable_bytes(std::span(text)));
  return PlacedTable{std::move(text), *stored->offset()};
}

std::shared_ptr<const range::RangeFile> File::ranges() const {
  std::call_once(looked_for_ranges_, [&] {
    try {
      const auto table = opened_ ? ranges_table() : std::nullopt;
      if (!table) return;
      const auto known =
          range::RangeFile::of(path_, *opened_, require_sealed(table->text, table->at, *opened_));
      if (known && known->has_room()) ranges_ = known;
    } catch (const base::InputError& error) {
      warn_of_slow_opening(path_, error.what());
    }
  });
  return ranges_;
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

template <typename Value>
std::optional<Value> File::root_attribute(const std::string& name, const char* expected) const {
  const auto value =
      reading(path_, path_, failed_read_, [&] { return read_attribute(file_.get(), name, path_); });
  if (!value) return std::nullopt;
  if (const auto* found = std::get_if<Value>(&*value)) return *found;
  throw base::input_error(path_, ": the attribute ", name, " of / is not ", expected);
}

std::optional<std::uint64_t> File::root_number(const std::string& name) const {
  return root_attribute<std::uint64_t>(name, "a whole number");
}

std::optional<std::string> File::root_text(const std::string& name) const {
  return root_attribute<std::string>(name, "a text");
}

}  // namespace ttrace::trace::hdf5
