// The header of a safetensors file: JSON that says of each tensor its type, its shape and where its
// bytes lie behind the header.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strict_json.h"
#include "trace/range/range_table.h"

namespace ttrace::trace::safetensors {

// The library's own limit. A hundred thousand tensors have a tenth of it.
inline constexpr std::uint64_t kLargestHeader = 100'000'000;

// Of each tensor it keeps 24 bytes, and no name: a checkpoint may have a million.
class Header {
 public:
  range::RangeTable take_tensors() { return std::move(tensors_); }
  // The type of a tensor that no trace can have, or "".
  std::string_view other_type(std::string_view tensor) const;
  // Metadata of our own: keys that begin with "ttrace_".
  std::map<std::string, std::string> take_metadata() { return std::move(metadata_); }

 private:
  friend class HeaderReader;

  range::RangeTable tensors_;  // offsets count from the begin of the file
  std::vector<std::pair<std::uint64_t, std::uint32_t>> others_;  // hash of the name, type
  std::vector<std::string> other_types_;
  std::map<std::string, std::string> metadata_;
};

// The text ends at `data_begin` of a file of `file_bytes`, whose name messages begin with. Throws
// an input error for what the safetensors library refuses of tensors that a trace can have: what is
// no JSON in UTF-8, tensors that share bytes or end beyond the file, bytes that belong to no
// tensor, and ranges that have not the size of their type and shape. Refuses also what it lets
// pass: a name that stands there twice, and facts of a tensor that it does not know.
Header parse_header(const base::JsonPieces& text, std::uint64_t data_begin,
                    std::uint64_t file_bytes, const std::string& path);

}  // namespace ttrace::trace::safetensors
