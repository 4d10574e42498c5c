#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "trace/run_id.h"

namespace ttrace::trace {
namespace {

using Json = nlohmann::json;

// The rank that drew the id alone, as the text behind "@"; empty if ranks share it.
std::string_view drawn_by(std::string_view id) {
  constexpr std::size_t kDigits = 32;
  constexpr std::string_view kHexadecimal = "0123456789abcdef";
  constexpr std::string_view kDecimal = "0123456789";
  if (id.find_first_not_of(kHexadecimal) != kDigits || id[kDigits] != '@') return {};
  const std::string_view rank = id.substr(kDigits + 1);
  return rank.find_first_not_of(kDecimal) == std::string_view::npos ? rank : std::string_view();
}

// Ends the parsing once it has the id, or once the text has none.
class IdSeeker final : public nlohmann::json_sax<Json> {
 public:
  const std::optional<std::string>& found() const { return found_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t& value) override {
    if (depth_ != 2 || !in_run_ || !at_id_) return true;
    found_ = value;
    return false;
  }
  bool binary(binary_t&) override { return false; }  // JSON has none
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (depth_ == 1) in_run_ = name == "run";
    if (depth_ == 2) at_id_ = name == "id";
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool open() {
    ++depth_;
    at_id_ = false;
    return true;
  }
  bool close() { return --depth_ != 1 || !in_run_; }

  std::size_t depth_ = 0;
  bool in_run_ = false;
  bool at_id_ = false;
  std::optional<std::string> found_;
};

}  // namespace

RunFit fit_of(std::string_view said, std::uint64_t rank, std::string_view expected) {
  if (expected.empty() || said == expected) return RunFit::kSame;
  if (said.empty()) return RunFit::kUnsaid;
  const bool alone = !drawn_by(expected).empty() && drawn_by(said) == std::to_string(rank);
  return alone ? RunFit::kUnsaid : RunFit::kOther;
}

std::optional<std::string> run_id_within(std::string_view manifest) {
  IdSeeker seeker;
  Json::sax_parse(manifest, &seeker);
  return seeker.found();
}

}  // namespace ttrace::trace
