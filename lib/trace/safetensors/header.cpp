#include "trace/safetensors/header.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
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

std::uint64_t hash_of(std::string_view name) { return std::hash<std::string_view>{}(name); }

}  // namespace

class HeaderReader {
 public:
  HeaderReader(std::uint64_t data_begin, std::uint64_t file_bytes, const std::string& path)
      : data_begin_(data_begin), data_bytes_(file_bytes - data_begin), path_(&path) {}

  Header read(const base::JsonPieces& text) {
    base::for_each_json_member(text, *path_ + ": header",
                               [this](const std::string& name, const base::JsonCursor& value) {
                                 hashes_.push_back(hash_of(name));
                                 if (name == "__metadata__") {
                                   add_metadata(value);
                                 } else {
                                   add_tensor(name, value);
                                 }
                               });
    require_distinct_names();
    require_every_byte_once();
    header_.tensors_.settle();
    std::sort(header_.others_.begin(), header_.others_.end());
    return std::move(header_);
  }

 private:
  // Bytes [begin, end) of the data, and where in names_ the name of their tensor lies.
  struct Stated {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint32_t name_begin = 0;
    std::uint32_t name_bytes = 0;
  };

  template <typename... Parts>
  base::InputError error(std::string_view name, const Parts&... parts) const {
    return base::input_error(*path_, ": ", base::printable(name), ": ", parts...);
  }
  std::string_view name_of(const Stated& one) const {
    return std::string_view(names_).substr(one.name_begin, one.name_bytes);
  }

  void add_metadata(const base::JsonCursor& metadata) {
    for (const auto& [key, text] : metadata.members()) {
      std::string value = text.as_string();
      if (key.starts_with("ttrace_")) header_.metadata_[key] = std::move(value);
    }
  }

  void add_tensor(const std::string& name, const base::JsonCursor& value) {
    value.allow_keys({"dtype", "shape", "data_offsets"});
    const std::string_view dtype = value.require("dtype").as_text();
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
    stated_.push_back({begin, end, static_cast<std::uint32_t>(names_.size()),
                       static_cast<std::uint32_t>(name.size())});
    names_ += name;
    const auto known = type_named(dtype);
    if (!known) return add_other(name, dtype);
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
    header_.tensors_.add(name, {*known, shape}, data_begin_ + begin);
  }

  void add_other(std::string_view name, std::string_view dtype) {
    const auto type = std::find(header_.other_types_.begin(), header_.other_types_.end(), dtype);
    const auto number = static_cast<std::uint32_t>(type - header_.other_types_.begin());
    if (type == header_.other_types_.end()) {
      if (header_.other_types_.size() == kMostOtherTypes) {
        throw error(name, "there are more than ", kMostOtherTypes, " types of tensors in the file");
      }
      header_.other_types_.emplace_back(dtype);
    }
    header_.others_.emplace_back(hash_of(name), number);
  }

  void require_distinct_names() {
    std::sort(hashes_.begin(), hashes_.end());
    const auto twice = std::adjacent_find(hashes_.begin(), hashes_.end());
    if (twice == hashes_.end()) return;
    const auto of_it = std::find_if(stated_.begin(), stated_.end(), [&](const Stated& one) {
      return hash_of(name_of(one)) == *twice;
    });
    const std::string_view name = of_it == stated_.end() ? "__metadata__" : name_of(*of_it);
    throw base::input_error(*path_, ": header: the key \"", base::printable(name),
                            "\" stands twice in one object");
  }

  void require_every_byte_once() {
    std::sort(stated_.begin(), stated_.end(), [](const Stated& a, const Stated& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    std::uint64_t done = 0;
    for (std::size_t i = 0; i < stated_.size(); ++i) {
      const Stated& one = stated_[i];
      if (one.begin < done) {
        throw error(name_of(one), "begins at byte ", one.begin, " of the data, which belongs to ",
                    base::printable(name_of(stated_[i - 1])), "; write the file again");
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

  static constexpr std::size_t kMostOtherTypes = 64;

  std::uint64_t data_begin_;
  std::uint64_t data_bytes_;
  const std::string* path_;
  Header header_;
  std::vector<std::uint64_t> hashes_;  // of the names of all members
  std::vector<Stated> stated_;
  std::string names_;  // one after the other
};

std::string_view Header::other_type(std::string_view tensor) const {
  const auto found =
      std::lower_bound(others_.begin(), others_.end(), std::pair(hash_of(tensor), 0U));
  if (found == others_.end() || found->first != hash_of(tensor)) return "";
  return other_types_[found->second];
}

Header parse_header(const base::JsonPieces& text, std::uint64_t data_begin,
                    std::uint64_t file_bytes, const std::string& path) {
  return HeaderReader(data_begin, file_bytes, path).read(text);
}

}  // namespace ttrace::trace::safetensors
