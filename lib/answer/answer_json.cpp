#include "answer/answer_json.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <utility>

#include "answer/answer_members.h"
#include "base/strict_json.h"
#include "base/text.h"

namespace ttrace::answer {
namespace {

template <typename T>
constexpr bool kIsOptional = false;
template <typename T>
constexpr bool kIsOptional<std::optional<T>> = true;

template <typename T>
bool is_nothing(const T& value) {
  if constexpr (kIsOptional<T>) {
    return !value;
  } else if constexpr (std::is_arithmetic_v<T>) {
    return value == T{};
  } else {
    return value.empty();
  }
}

class Writer {
 public:
  template <typename T>
  void put(std::string_view name, const T& value) {
    begin_member(name);
    write(value);
  }
  template <typename T>
  void maybe(std::string_view name, const T& value) {
    if (!is_nothing(value)) put(name, value);
  }
  template <typename T>
  void nullable(std::string_view name, const T& value) {
    begin_member(name);
    is_nothing(value) ? void(text_ += "null") : write(value);
  }
  template <typename T>
  void lines(std::string_view name, const T& value) {
    begin_member(name);
    if constexpr (kIsOptional<T>) {
      write_list(*value, "\n    ", "\n  ");
    } else {
      write_list(value, "\n    ", "\n  ");
    }
  }
  template <typename T>
  void maybe_lines(std::string_view name, const T& value) {
    if (!is_nothing(value)) lines(name, value);
  }
  template <typename T>
  void inlined(const base::HeapOptional<T>& value, std::string_view) {
    if (value) each_member(*this, *value);
  }
  void rest(const Named<std::string>& texts, std::initializer_list<std::string_view>) {
    for (const auto& [name, text] : texts) {
      begin_member_of_file(name);
      write(text);
    }
  }

  // The members of `whole`, a line each.
  std::string whole(const Answer& answer) && {
    text_ = base::concat("{\n  \"schema\": \"", kAnswerSchema, "\"");
    first_ = false;
    each_member(*this, answer);
    return std::move(text_) + "\n}\n";
  }

 private:
  void begin_member(std::string_view name) {
    if (!first_) text_ += between_;
    first_ = false;
    text_ += '"';
    text_ += name;
    text_ += between_.size() > 1 ? "\": " : "\":";
  }

  void write(bool value) { text_ += value ? "true" : "false"; }
  void write(std::uint64_t value) { text_ += std::to_string(value); }
  void write(std::int64_t value) { text_ += std::to_string(value); }
  void write(double value) {
    if (!std::isfinite(value)) {
      text_ += std::isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"";
      return;
    }
    // A number with a point or an exponent is read as no whole number.
    const std::string digits = base::nine_digits(value);
    text_ += digits;
    if (digits.find_first_of(".e") == std::string::npos) text_ += ".0";
  }
  void write(const std::string& value) { text_ += base::json_string(value); }
  void write(trace::Kind kind) { write(std::string(kind_name(kind))); }
  void write(const AnsweredTensor::Exact& exact) {
    if (exact.whole) return write(static_cast<std::int64_t>(exact.value));
    write(exact.value);
  }
  void write(const Answer::Raw& raw) { text_ += raw.text; }
  void write(const base::Message::Value& value) {
    std::visit([this](const auto& one) { write(one); }, value);
  }
  template <typename T>
  void write(const std::optional<T>& value) {
    value ? write(*value) : void(text_ += "null");
  }
  void write(const tensor::Shape& shape) { write_list(shape, "", ""); }
  template <typename T>
  void write(const std::vector<T>& values) {
    write_list(values, "", "");
  }
  template <typename T>
  void write(const Named<T>& named) {
    write_named(named);
  }
  void write(const CauseValues& values) { write_named(values); }
  template <typename T>
    requires std::is_class_v<T>
  void write(const T& value) {
    object([&] { each_member(*this, value); });
  }

  template <typename List>
  void write_list(const List& values, std::string_view before, std::string_view after) {
    text_ += '[';
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0) text_ += ',';
      text_ += before;
      write(values[i]);
    }
    if (!values.empty()) text_ += after;
    text_ += ']';
  }
  template <typename Values>
  void write_named(const Values& named) {
    object([&] {
      for (const auto& [name, value] : named) {
        begin_member_of_file(std::string(name));
        write(value);
      }
    });
  }
  template <typename Members>
  void object(Members members) {
    const std::string_view between = std::exchange(between_, ",");
    first_ = true;
    text_ += '{';
    members();
    text_ += '}';
    between_ = between;
    first_ = false;
  }
  // A name that comes from a file.
  void begin_member_of_file(const std::string& name) {
    if (!first_) text_ += between_;
    first_ = false;
    text_ += base::json_string(name);
    text_ += ':';
  }

  std::string text_;
  std::string_view between_ = ",\n  ";  // members
  bool first_ = true;
};

class Reader {
 public:
  // `taken`: how many bytes the answer takes by now.
  Reader(const base::JsonCursor& object, std::uint64_t& taken) : object_(object), taken_(taken) {}

  template <typename T>
  void put(std::string_view name, T& value) {
    read(object_.require(name), value);
  }
  template <typename T>
  void maybe(std::string_view name, T& value) {
    if (const auto found = object_.find(name)) read(*found, value);
  }
  template <typename T>
  void nullable(std::string_view name, T& value) {
    const base::JsonCursor found = object_.require(name);
    if (!found.is_null()) read(found, value);
  }
  template <typename T>
  void lines(std::string_view name, T& value) {
    put(name, value);
  }
  template <typename T>
  void maybe_lines(std::string_view name, T& value) {
    maybe(name, value);
  }
  template <typename T>
  void inlined(base::HeapOptional<T>& value, std::string_view name) {
    if (!object_.find(name)) return;
    take(object_, sizeof(T));
    each_member(*this, value.emplace());
  }
  void rest(Named<std::string>& texts, std::initializer_list<std::string_view> others) {
    for (const auto& [name, value] : object_.members()) {
      const bool known = std::find(others.begin(), others.end(), name) != others.end();
      if (!known && value.is_string()) texts.emplace(name, value.as_string());
    }
  }

 private:
  using Cursor = base::JsonCursor;

  void read(const Cursor& from, bool& value) { value = from.as_bool(); }
  void read(const Cursor& from, std::uint64_t& value) { value = from.as_count(); }
  void read(const Cursor& from, std::int64_t& value) {
    const double number = number_from(from);
    if (!(std::abs(number) < 0x1p63)) throw from.error("is no whole number of 64 bits");
    value = static_cast<std::int64_t>(number);
  }
  void read(const Cursor& from, double& value) { value = number_from(from); }
  void read(const Cursor& from, std::string& value) { value = from.as_string(); }
  void read(const Cursor& from, trace::Kind& value) {
    const auto kind = trace::parse_kind(from.as_text());
    if (!kind) throw from.error("\"", base::printable(from.as_text()), "\" is no kind");
    value = *kind;
  }
  void read(const Cursor& from, AnsweredTensor::Exact& exact) {
    exact.value = number_from(from);
    exact.whole = is_whole(from) && std::abs(exact.value) <= 0x1p53;
  }
  void read(const Cursor& from, Answer::Raw& raw) { raw.text = from.text(); }
  void read(const Cursor& from, base::Message::Value& value) {
    if (from.is_string()) {
      value = from.as_string();
    } else if (is_whole(from)) {
      value = from.as_count();
    } else {
      value = from.as_number();
    }
  }
  template <typename T>
  void read(const Cursor& from, std::optional<T>& value) {
    if (!from.is_null()) read(from, value.emplace());
  }
  void read(const Cursor& from, tensor::Shape& shape) { shape = from.as_counts(); }
  template <typename T>
  void read(const Cursor& from, std::vector<T>& values) {
    const std::vector<Cursor> items = from.items();
    take(from, items.size() * sizeof(T));
    values.reserve(items.size());
    for (const Cursor& item : items) read(item, values.emplace_back());
  }
  template <typename T>
  void read(const Cursor& from, Named<T>& named) {
    for (const auto& [name, value] : from.members()) read(value, named[name]);
  }
  void read(const Cursor& from, CauseValues& values) {
    for (const auto& [name, value] : from.members()) {
      read(value, values.emplace_back(name, std::uint64_t{0}).second);
    }
  }
  template <typename T>
    requires std::is_class_v<T>
  void read(const Cursor& from, T& value) {
    Reader members(from, taken_);
    each_member(members, value);
  }

  void take(const Cursor& from, std::uint64_t bytes) {
    taken_ += bytes;
    if (taken_ <= base::json_memory()) return;
    throw from.error("the answer takes more than --memory allows (",
                     base::human_bytes(base::json_memory()), "); allow more");
  }

  static bool is_whole(const Cursor& from) {
    return !from.is_string() && from.text().find_first_not_of("-0123456789") == std::string::npos;
  }
  static double number_from(const Cursor& from) {
    if (!from.is_string()) return from.as_number();
    const std::string_view text = from.as_text();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
    throw from.error("\"", base::printable(text), "\" is no number");
  }

  const base::JsonCursor& object_;
  std::uint64_t& taken_;
};

// What each command has always; an answer without it was cut, and would say that nothing is wrong.
void require_members(const base::JsonCursor& root, const Answer& answer) {
  const auto need = [&root](std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) {
      if (root.require(name).is_null()) throw root.error("the key \"", name, "\" is null");
    }
  };
  const auto need_coverage = [&](std::initializer_list<std::string_view> names) {
    const base::JsonCursor coverage = root.require("coverage");
    for (const std::string_view name : names) coverage.require(name);
  };
  if (answer.command == "compare") {
    need({"reference", "candidate", "tolerance", "selection", "frontier_from", "counts", "groups",
          "suspects", "results"});
    need_coverage({"computed", "computed_unchecked", "remarks"});
    root.require("counts").require("total");
  } else if (answer.command == "audit") {
    need({"run", "selection", "sharpness", "results"});
    need_coverage({"judged", "not_judged"});
  } else if (answer.command == "localize") {
    need({"reference", "candidate", "selection", "comparison", "suspects", "layers"});
  } else {
    throw root.require("command").error("is none of compare, audit and localize");
  }
}

}  // namespace

std::string json_of(const Answer& answer) { return Writer().whole(answer); }

Answer read_answer(std::string_view text, const std::string& file) {
  return read_answer(base::JsonDocument(text, file).root());
}

Answer read_answer(const base::JsonCursor& root) {
  root.require("schema").require_format(
      kAnswerSchema, "make it with --json of `ttrace compare`, audit or localize");
  Answer answer;
  std::uint64_t taken = 0;
  Reader members(root, taken);
  each_member(members, answer);
  require_members(root, answer);
  return answer;
}

}  // namespace ttrace::answer
