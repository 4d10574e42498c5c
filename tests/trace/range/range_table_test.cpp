// A table of ranges says what was written into it, and nothing else passes for one.
#include "trace/range/range_table.h"

#include "base/refusal.h"

namespace ttrace::trace::range::range_table_test {
namespace {

using tensor::DType;
using test::check_refused;
using Ranges = std::map<std::string, StoredRange>;

constexpr std::uint64_t kAt = 500;    // of the table in its file
constexpr std::uint64_t kEnd = 1000;  // of the file
const StoredRange kFour{{DType::kFloat32, {2, 2}}, 100};

void check_unsound(const std::string& table, const std::string& why) {
  CAPTURE(why);
  check_refused([&] { RangeTable(table, kAt, kEnd); }, {"table of ranges", why});
}

TEST_CASE("a table finds what was put into it") {
  Ranges ranges;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    ranges["/x" + std::to_string(i)] = {{DType::kBFloat16, {i % 7 + 1}}, 100 + 20 * i};
  }
  ranges["/scalar"] = {{DType::kFloat64, {}}, 50};
  const std::string text = table_text(ranges);
  RangeTable table(text, 1 << 20, 1 << 22);
  CHECK(table.size() == 1001);
  for (const auto& [name, range] : ranges) {
    const auto found = table.find(name);
    REQUIRE(found.has_value());
    CHECK(found->offset == range.offset);
    CHECK(found->facts.dtype == range.facts.dtype);
    CHECK(found->facts.shape == range.facts.shape);
  }
  for (const char* name : {"", "/", "/x", "/x1000", "x1", "/../x1", "/x1\n"}) {
    CHECK_FALSE(table.find(name).has_value());
  }
  std::size_t visited = 0;
  for_each_range(text, [&](std::string_view name, const StoredRange& range) {
    visited += ranges.at(std::string(name)).offset == range.offset ? 1 : 0;
  });
  CHECK(visited == ranges.size());
}

TEST_CASE("what the checksum is of are the bytes outside of ranges and seal") {
  RangeTable table(table_text({{"/a", kFour}, {"/b", {{DType::kInt8, {4}}, 116}}}), kAt, kEnd);
  const auto outside = table.take_outside();
  REQUIRE(outside.size() == 3);
  CHECK((outside[0].begin == 0 && outside[0].end == 100));
  CHECK((outside[1].begin == 120 && outside[1].end == kAt + 16));
  CHECK((outside[2].begin == kAt + 32 && outside[2].end == kEnd));
}

TEST_CASE("ranges where no tensor can lie are refused") {
  const auto at = [](std::uint64_t offset) { return table_text({{"/a", {kFour.facts, offset}}}); };
  check_unsound(at(kEnd - 15), "/a beyond the end");
  check_unsound(at(kEnd), "/a beyond the end");
  check_unsound(at(~std::uint64_t{0} - 7), "/a beyond the end");
  check_unsound(at(0), "/a where the file's own headers lie");
  check_unsound(at(47), "/a where the file's own headers lie");
  check_unsound(at(kAt - 15), "/a where the file's own headers lie");
  check_unsound(at(kAt + 40), "/a where the file's own headers lie");
  check_unsound(table_text({{"/a", kFour}, {"/b", {kFour.facts, 115}}}), "two tensors");
  check_unsound(table_text({{"/a", kFour}, {"/b", kFour}}), "two tensors");
}

TEST_CASE(
    "a table that is cut, longer or changed in any byte is refused or finds bytes in the file") {
  const std::string sound = table_text({{"/a", kFour}, {"/b", {kFour.facts, 200}}});
  for (std::size_t bytes = 0; bytes < sound.size(); ++bytes) {
    CAPTURE(bytes);
    check_refused([&] { RangeTable(sound.substr(0, bytes), kAt, kEnd); }, {"table of ranges"});
  }
  check_unsound(sound + "/c\n", "more datasets than it has");
  check_unsound("ttrace.ranges/2\n" + sound.substr(16), "no kind that this program knows");
  std::size_t refused = 0;
  for (std::size_t at = 0; at < sound.size(); ++at) {
    for (const int value : {0, 1, 0x0a, 0x20, 0x7f, 0xff}) {
      std::string damaged = sound;
      damaged[at] = static_cast<char>(value);
      try {
        const RangeTable table(damaged, kAt, kEnd);
        for (const char* name : {"/a", "/b"}) {
          const auto found = table.find(name);
          if (!found) continue;
          const auto bytes = tensor::byte_count(found->facts.shape, found->facts.dtype);
          REQUIRE((bytes && *bytes > 0 && found->offset + *bytes <= kEnd));
        }
      } catch (const base::InputError&) {
        ++refused;
      }
    }
  }
  CHECK(refused > sound.size());
}

TEST_CASE("names that stand twice, and types and shapes that no tensor has, are refused") {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = table_text({{"/a", kFour}, {"/b", {kFour.facts, 200}}});
    return text.replace(text.find(from), from.size(), to);
  };
  check_unsound(with("/b\n", "/a\n"), "names /a twice");
  check_unsound(with("/b\n", "\nb\n"), "not whole");
  for (const char* facts : {"float99 2 2", "float32 2 0", "float32 2 x", "float32  22",
                            "float32 2 \t", "float32 2 -", "float32 2  "}) {
    check_unsound(with("float32 2 2", facts), "type or shape");
  }
  const std::string wide = table_text({{"/a", {{DType::kFloat64, {1ULL << 62, 8}}, 100}}});
  check_unsound(wide, "type or shape");
  std::string many = table_text({{"/a", {{DType::kFloat32, {10, 10, 10}}, 100}}});
  many.replace(many.find("float32"), 17, "int8 1\nint8 1 10\n");
  check_unsound(many, "more types and shapes than datasets");
}

}  // namespace
}  // namespace ttrace::trace::range::range_table_test
