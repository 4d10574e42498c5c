#include "trace/foreign_file.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>

#include "base/text.h"

namespace ttrace::trace {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHead = 512;
constexpr std::string_view kWayOut =
    "ttrace reads traces, which tt.trace(model, optimizer, out=\"run.h5\") writes in the job";
constexpr std::string_view kSafetensors = "safetensors file";
constexpr std::string_view kWayOutOfSafetensors =
    "; a job that writes its own gives a folder with manifest.json and a file "
    "rank_00000.safetensors "
    "of each rank";

std::string head_of(const std::string& path) {
  std::string head(kHead, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  return head;
}

// The name of the first member of a ZIP archive: PK\3\4, and at 26 the length of the name at 30.
std::string_view first_member(std::string_view head) {
  constexpr std::size_t kLength = 26;
  constexpr std::size_t kName = 30;
  if (!head.starts_with("PK\x03\x04") || head.size() < kName) return {};
  const auto low = static_cast<unsigned char>(head[kLength]);
  const auto high = static_cast<unsigned char>(head[kLength + 1]);
  return head.substr(kName, std::size_t{low} + 256U * high);
}

bool is_json(std::string_view head) {
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (head[first] == '{' || head[first] == '[');
}

bool is_text(std::string_view head) {
  return !head.empty() && std::none_of(head.begin(), head.end(), [](char c) {
    return std::iscntrl(static_cast<unsigned char>(c)) != 0 && c != '\n' && c != '\r' && c != '\t';
  });
}

// The value of the first member "schema" of a report or manifest of ttrace, or empty.
std::string_view schema_of(std::string_view head) {
  const std::size_t at = head.find("\"ttrace.");
  if (at == std::string_view::npos) return {};
  const std::size_t end = head.find('"', at + 1);
  return end == std::string_view::npos ? std::string_view() : head.substr(at + 1, end - at - 1);
}

// What a file is, as a noun: "torch.save checkpoint"; or empty.
std::string_view kind_of(const std::string& path) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(path, error);
  const std::string head = error ? std::string() : head_of(path);
  // The first byte is that of a length, which may be any.
  if (begins_as_safetensors(head, size)) return kSafetensors;
  const std::string_view member = first_member(head);
  if (member.ends_with(".npy") || head.starts_with("\x93NUMPY")) return "NumPy file";
  if (member.find("data.pkl") != std::string_view::npos ||
      member.find(".format_version") != std::string_view::npos ||
      (head.starts_with("\x80\x02") || head.starts_with("\x80\x04"))) {
    return "torch.save checkpoint";
  }
  if (!member.empty()) return "ZIP archive";
  if (head.starts_with("\x1f\x8b") || head.starts_with("\x28\xb5\x2f\xfd")) {
    return "compressed file";
  }
  if (is_json(head)) return "JSON file";
  if (is_text(head)) return "text file";
  return "";
}

}  // namespace

bool begins_as_safetensors(std::string_view head, std::uint64_t bytes) {
  constexpr std::size_t kBefore = 8;
  if (head.size() <= kBefore || head[kBefore] != '{') return false;
  std::uint64_t length = 0;
  for (std::size_t i = kBefore; i-- > 0;) {
    length = length << 8U | static_cast<unsigned char>(head[i]);
  }
  return length >= 2 && length <= bytes - kBefore;
}

std::string describe_foreign_file(const std::string& path) {
  const std::string_view kind = kind_of(path);
  if (kind.empty()) return "";
  if (kind == "compressed file") return "is a compressed file; unpack it first";
  if (kind == "JSON file") {
    const std::string head = head_of(path);
    const std::string_view schema = schema_of(head);
    if (schema.starts_with("ttrace.manifest") || fs::path(path).filename() == "manifest.json") {
      return "is the manifest of a trace; give the folder that it lies in";
    }
    if (!schema.empty()) {
      return base::concat("is a JSON file of ttrace (", base::printable(schema), "), not a trace; ",
                          kWayOut);
    }
  }
  return base::concat("is a ", kind, ", not a trace; ", kWayOut,
                      kind == kSafetensors ? kWayOutOfSafetensors : "");
}

std::string describe_foreign_folder(const std::string& path) {
  constexpr std::size_t kMost = 1000;
  std::map<std::string_view, std::uint64_t> kinds;
  std::error_code error;
  std::size_t seen = 0;
  std::uint64_t hdf5_files = 0;
  for (fs::directory_iterator file(path, error); !error && file != fs::directory_iterator();
       file.increment(error)) {
    if (++seen > kMost) break;
    const std::string name = file->path().filename().string();
    if (name.starts_with("rank_")) return "";
    if (!file->is_regular_file(error)) continue;
    hdf5_files += head_of(file->path().string()).starts_with("\x89HDF") ? 1 : 0;
    const std::string_view kind = kind_of(file->path().string());
    if (!kind.empty()) ++kinds[kind];
  }
  if (hdf5_files > 0) {
    return base::concat("has no manifest.json, so it is not a trace of several ranks; to read ",
                        hdf5_files == 1 ? "its HDF5 file" : "one of its HDF5 files",
                        ", give that file");
  }
  std::string text;
  for (const auto& [kind, count] : kinds) {
    text += base::concat(text.empty() ? "" : ", ", base::plural(count, kind));
  }
  return text.empty() ? "" : base::concat("is a folder with ", text, ", not a trace; ", kWayOut);
}

}  // namespace ttrace::trace
