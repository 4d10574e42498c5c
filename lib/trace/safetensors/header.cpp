#include "trace/safetensors/header.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "tensor/box.h"
#include "tensor/dtype.h"

namespace ttrace::trace::safetensors {
namespace {

using tensor::DType;

// The types that both formats have, by the library's names. It knows more: complex numbers, scales
// of one byte, and numbers of less than a byte.
constexpr std::array<std::pair<std::string_view, DType>, 15> kTypes{{
    {"F64", DType::kFloat64},
    {"F32", DType::kFloat32},
    {"F16", DType::kFloat16},
    {"BF16", DType::kBFloat16},
    {"F8_E4M3", DType::kFloat8E4M3},
    {"F8_E5M2", DType::kFloat8E5M2},
    {"I8", DType::kInt8},
    {"I16", DType::kInt16},
    {"I32", DType::kInt32},
    {"I64", DType::kInt64},
    {"U8", DType::kUInt8},
    {"U16", DType::kUInt16},
    {"U32", DType::kUInt32},
    {"U64", DType::kUInt64},
    {"BOOL", DType::kBool},
}};

std::optional<DType> type_named(std::string_view name) {
  for (const auto& [known, dtype] : kTypes) {
    if (known == name) return dtype;
  }
  return std::nullopt;
}

// Bytes [begin, end) of the data.
struct Stated {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string name;
};

class HeaderReader {
 public:
  HeaderReader(std::uint64_t data_begin, std::uint64_t file_bytes, const std::string& path)
      : data_begin_(data_begin), data_bytes_(file_bytes - data_begin), path_(&path) {}

  Header read(const base::JsonCursor& root) {
    const auto members = root.members();
    stated_.reserve(members.size());
    for (const auto& [name, value] : members) {
      if (name == "__metadata__") {
        for (const auto& [key, text] : value.members()) header_.metadata[key] = text.as_string();
      } else {
        add_tensor(name, value);
      }
    }
    require_every_byte_once();
    return std::move(header_);
  }

 private:
  template <typename... Parts>
  base::InputError error(const std::string& name, const Parts&... parts) const {
    return base::input_error(*path_, ": ", base::printable(name), ": ", parts...);
  }

  void add_tensor(const std::string& name, const base::JsonCursor& value) {
    value.allow_keys({"dtype", "shape", "data_offsets"});
    const std::string dtype = value.require("dtype").as_string();
    const tensor::Shape shape = value.require("shape").as_counts();
    const auto offsets = value.require("data_offsets").as_counts();
    if (offsets.size() != 2) {
      throw error(name, "its data_offsets are ", offsets.size(), " numbers instead of two");
    }
    const std::uint64_t begin = offsets[0];
    const std::uint64_t end = offsets[1];
    if (end < begin) {
      throw error(name, "its bytes end before they begin (data_offsets ", begin, " and ", end, ")");
    }
    if (end > data_bytes_) {
      throw error(name, "ends at byte ", end, " of the data, of which the file has ", data_bytes_,
                  "; was the job killed while it wrote, or the file not copied to its end?");
    }
    stated_.push_back({begin, end, name});
    const auto known = type_named(dtype);
    if (!known) {
      header_.other_types[name] = dtype;
      return;
    }
    if (shape.size() > tensor::kMostDimensions) {
      throw error(name, "has ", shape.size(), " dimensions, and a tensor has at most ",
                  tensor::kMostDimensions);
    }
    const auto bytes = tensor::byte_count(shape, *known);
    if (bytes != end - begin) {
      throw error(name, "has ", end - begin, " bytes (data_offsets ", begin, " and ", end,
                  "), and ", dtype, " ", tensor::to_string(shape), " has ",
                  bytes ? base::concat(*bytes) : std::string("more than there can be"));
    }
    header_.tensors[name] = {{*known, shape}, data_begin_ + begin};
  }

  void require_every_byte_once() {
    std::sort(stated_.begin(), stated_.end(), [](const Stated& a, const Stated& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    std::uint64_t done = 0;
    for (std::size_t i = 0; i < stated_.size(); ++i) {
      const Stated& one = stated_[i];
      if (one.begin < done) {
        throw error(one.name, "begins at byte ", one.begin, " of the data, which belongs to ",
                    base::printable(stated_[i - 1].name), "; write the file again");
      }
      if (one.begin > done) refuse_bytes_of_none(done, one.begin);
      done = one.end;
    }
    if (done < data_bytes_) refuse_bytes_of_none(done, data_bytes_);
  }

  [[noreturn]] void refuse_bytes_of_none(std::uint64_t begin, std::uint64_t end) const {
    throw base::input_error(*path_, ": bytes ", begin, " to ", end,
                            " of the data belong to no tensor, which the format forbids; write the "
                            "file again");
  }

  std::uint64_t data_begin_;
  std::uint64_t data_bytes_;
  const std::string* path_;
  Header header_;
  std::vector<Stated> stated_;
};

}  // namespace

Header parse_header(std::string_view text, std::uint64_t data_begin, std::uint64_t file_bytes,
                    const std::string& path) {
  const base::JsonDocument document(text, path + ": header");
  return HeaderReader(data_begin, file_bytes, path).read(document.root());
}

}  // namespace ttrace::trace::safetensors
