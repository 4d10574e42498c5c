// One file of a trace, whatever it is stored in: what trace/open/ needs to know of it. Each folder
// of trace/ that reads one kind of file gives a StorageKind, which stands in the table of
// trace/open/storages.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/range/range_file.h"
#include "trace/source.h"

namespace ttrace::trace {

// Errors in what a file says about where its tensors lie.
struct RangeCheck {
  std::vector<std::string> findings;  // entries that the file itself contradicts
  std::string warning;                // why the table of ranges is not used, or empty
};

// The manifest inside a file: the whole one of a trace of one rank, or a rank's own part.
struct EmbeddedManifest {
  std::string place;                // "/manifest", for messages
  std::optional<std::string> text;  // nothing if the file has none
};

// Its members may be called from several threads, and throw input errors naming the file.
class RankFile {
 public:
  virtual ~RankFile() = default;

  // Throws an input error naming file and dataset if it is absent or cannot be read.
  virtual std::unique_ptr<Dataset> open_dataset(const std::string& dataset) const = 0;
  // Its tensors by where they lie. May be kept when this is closed. Null if the file does not say
  // where they lie, or if too many such files are kept.
  virtual std::shared_ptr<const range::RangeFile> ranges() const = 0;
  // The rank that the file says wrote it (`ttrace_rank`), if it says so.
  virtual std::optional<std::uint64_t> written_by() const = 0;
  // The id of the run that the file says it is of (`ttrace_run`), if it says so.
  virtual std::optional<std::string> stamped_run() const = 0;
  virtual EmbeddedManifest manifest() const = 0;
  // Checks the ranges by which tensors are read against the file's own headers. Finds nothing in
  // kinds of files that have only one of the two.
  virtual RangeCheck check_ranges() const { return {}; }
};

// A kind of file in which a trace can lie.
struct StorageKind {
  std::string_view suffix;  // of a rank's file: ".h5"
  // Whether a file that begins with `head` (512 bytes, or all of a shorter one) and has `bytes` is
  // of this kind.
  bool (*recognises)(std::string_view head, std::uint64_t bytes);
  // `grows`: whether its job may still add steps to it. Throws an input error naming the file if it
  // is absent, no regular file, or cannot be read.
  std::shared_ptr<const RankFile> (*open)(const std::string& path, bool grows);
};

}  // namespace ttrace::trace
