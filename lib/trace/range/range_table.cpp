#include "trace/range/range_table.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <numeric>

#include "base/bytes.h"
#include "base/error.h"
#include "base/text.h"

namespace ttrace::trace::range {
namespace {

constexpr std::string_view kSchema = "ttrace.ranges/1\n";
constexpr std::size_t kHeadBytes = 48;
constexpr std::size_t kEntryBytes = 12;  // and the name
// HDF5's first header, which leads to all others, has no fewer bytes in any version.
constexpr std::uint64_t kFirstHeaderBytes = 48;

// Little-endian; the caller has seen that there are `width` bytes.
std::uint64_t number_in(std::string_view bytes, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = width; i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

void add_number(std::string& text, std::uint64_t value, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i, value >>= 8) text += static_cast<char>(value & 0xff);
}

[[noreturn]] void refuse(std::string_view why) {
  throw base::input_error("its table of ranges ", why);
}

// The text up to the next end of a line, which is taken off `rest`.
std::string_view take_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  if (end == std::string_view::npos || end == 0) refuse("is not whole");
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return line;
}

std::string facts_text(const DatasetFacts& facts) {
  std::string text(tensor::dtype_name(facts.dtype));
  for (const std::uint64_t extent : facts.shape) text += base::concat(' ', extent);
  return text + '\n';
}

DatasetFacts facts_in(std::string_view line) {
  std::size_t at = std::min(line.find(' '), line.size());
  const auto dtype = tensor::parse_dtype(line.substr(0, at));
  DatasetFacts facts;
  bool is_sound = dtype.has_value();
  if (is_sound) facts.dtype = *dtype;
  while (is_sound && at < line.size()) {
    std::uint64_t extent = 0;
    const char* const end = line.data() + line.size();
    const auto [stop, error] = std::from_chars(line.data() + at + 1, end, extent);
    is_sound = error == std::errc() && (stop == end || *stop == ' ') &&
               facts.shape.size() < tensor::kMostDimensions;
    facts.shape.push_back(extent);
    at = static_cast<std::size_t>(stop - line.data());
  }
  // A tensor without elements has no range.
  const auto bytes = is_sound ? tensor::byte_count(facts.shape, facts.dtype) : std::nullopt;
  if (!bytes || *bytes == 0) refuse("has a type or shape that no tensor has");
  return facts;
}

// The entries of a table, not looked at.
struct Table {
  Seal seal;
  std::vector<DatasetFacts> facts;
  std::size_t entries = 0;
  std::string_view offsets;
  std::string_view numbers;  // of facts
  std::string_view names;

  explicit Table(std::string_view bytes) {
    if (bytes.size() < kHeadBytes || !bytes.starts_with(kSchema)) {
      refuse("is of no kind that this program knows");
    }
    seal = {number_in(bytes, 16, 8), number_in(bytes, 24, 8)};
    const std::uint64_t count = number_in(bytes, 32, 8);
    const std::uint64_t text = number_in(bytes, 40, 8);
    std::string_view rest = bytes.substr(kHeadBytes);
    if (count > rest.size() / kEntryBytes || text > rest.size() - count * kEntryBytes) {
      refuse("is not whole");
    }
    if (count > kMostRanges) refuse("is longer than is kept in memory");
    entries = count;
    offsets = rest.substr(0, count * 8);
    numbers = rest.substr(count * 8, count * 4);
    names = rest.substr(count * kEntryBytes + text);
    for (rest = rest.substr(count * kEntryBytes, text); !rest.empty();) {
      if (facts.size() == entries) refuse("has more types and shapes than datasets");
      facts.push_back(facts_in(take_line(rest)));
    }
  }

  // Visits the name, the offset and the number of the facts of every entry.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    std::string_view rest = names;
    for (std::size_t i = 0; i < entries; ++i) {
      const std::uint64_t number = number_in(numbers, 4 * i, 4);
      if (number >= facts.size()) refuse("is not whole");
      visit(take_line(rest), number_in(offsets, 8 * i, 8), static_cast<std::uint32_t>(number));
    }
    if (!rest.empty()) refuse("names more datasets than it has");
  }
};

std::uint64_t hash_of(std::string_view name) { return std::hash<std::string_view>{}(name); }

// An entry is known by the hash of its name.
void require_distinct(std::vector<std::pair<std::uint64_t, std::string_view>>& named) {
  std::sort(named.begin(), named.end());
  const auto twice = std::adjacent_find(
      named.begin(), named.end(), [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice == named.end()) return;
  refuse(base::concat("names ", base::printable(twice->second), " twice"));
}

}  // namespace

std::string Seal::text() const {
  std::string text;
  add_number(text, file_bytes, 8);
  add_number(text, checksum, 8);
  return text;
}

std::string table_text(const std::map<std::string, StoredRange>& ranges) {
  std::map<std::string, std::uint32_t> known;
  std::string facts;
  std::string offsets;
  std::string numbers;
  std::string names;
  for (const auto& [name, range] : ranges) {
    const auto [found, is_new] =
        known.emplace(facts_text(range.facts), static_cast<std::uint32_t>(known.size()));
    if (is_new) facts += found->first;
    add_number(offsets, range.offset, 8);
    add_number(numbers, found->second, 4);
    names += name + '\n';
  }
  std::string text = std::string(kSchema) + Seal{}.text();
  add_number(text, ranges.size(), 8);
  add_number(text, facts.size(), 8);
  return text + offsets + numbers + facts + names;
}

void for_each_range(std::string_view table,
                    const std::function<void(std::string_view, const StoredRange&)>& visit) {
  const Table read(table);
  read.for_each([&](std::string_view name, std::uint64_t offset, std::uint32_t facts) {
    visit(name, {read.facts[facts], offset});
  });
}

RangeTable::RangeTable(std::string_view table, std::uint64_t at, std::uint64_t file_bytes) {
  Table read(table);
  seal_ = read.seal;
  entries_.reserve(read.entries);
  std::vector<std::uint64_t> sizes;
  for (const DatasetFacts& facts : read.facts) {
    sizes.push_back(tensor::byte_count(facts.shape, facts.dtype).value_or(0));
  }
  // No byte may lie in two of these: the ranges, the first header, and the table around its seal.
  std::vector<FileExtent> taken;
  taken.reserve(read.entries + 2);
  std::vector<std::pair<std::uint64_t, std::string_view>> named;
  named.reserve(read.entries);
  read.for_each([&](std::string_view name, std::uint64_t offset, std::uint32_t facts) {
    const auto end = base::checked_add(offset, sizes[facts]);
    if (!end || *end > file_bytes) {
      refuse(base::concat("has ", base::printable(name), " beyond the end of the file"));
    }
    if (offset < kFirstHeaderBytes || (offset < at + table.size() && *end > at)) {
      refuse(base::concat("has ", base::printable(name), " where the file's own headers lie"));
    }
    taken.push_back({offset, *end});
    named.emplace_back(hash_of(name), name);
    entries_.push_back({named.back().first, offset, facts});
  });
  require_distinct(named);
  taken.push_back({at + Seal::kOffset, at + Seal::kOffset + Seal::kBytes});
  std::sort(taken.begin(), taken.end(),
            [](const FileExtent& a, const FileExtent& b) { return a.begin < b.begin; });
  std::uint64_t begin = 0;
  for (const FileExtent& one : taken) {
    if (one.begin < begin) refuse("gives bytes to two tensors");
    if (begin < one.begin) outside_.push_back({begin, one.begin});
    begin = one.end;
  }
  if (begin < file_bytes) outside_.push_back({begin, file_bytes});
  facts_ = std::move(read.facts);
  settle();
}

void RangeTable::add(std::string_view dataset, const DatasetFacts& facts, std::uint64_t offset) {
  const auto [found, is_new] =
      known_facts_.emplace(facts_text(facts), static_cast<std::uint32_t>(facts_.size()));
  if (is_new) facts_.push_back(facts);
  entries_.push_back({hash_of(dataset), offset, found->second});
}

void RangeTable::settle() {
  constexpr std::size_t kEntriesPerBucket = 4;
  known_facts_ = {};
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.hash < b.hash; });
  bucket_bits_ = static_cast<unsigned>(std::bit_width(entries_.size() / kEntriesPerBucket));
  buckets_.assign((std::size_t{1} << bucket_bits_) + 1, 0);
  for (const Entry& entry : entries_) ++buckets_[bucket_of(entry.hash) + 1];
  std::partial_sum(buckets_.begin(), buckets_.end(), buckets_.begin());
}

std::optional<StoredRange> RangeTable::find(std::string_view dataset) const {
  const std::uint64_t hash = hash_of(dataset);
  const std::size_t bucket = bucket_of(hash);
  for (std::uint32_t i = buckets_[bucket]; i < buckets_[bucket + 1]; ++i) {
    if (entries_[i].hash == hash) return StoredRange{facts_[entries_[i].facts], entries_[i].offset};
  }
  return std::nullopt;
}

}  // namespace ttrace::trace::range
