// Makes the JSON schema of an answer from the description of its members (answer/members.h).
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "answer/answer_members.h"
#include "answer/outcomes.h"
#include "localize/phase.h"

namespace ttrace::test {

// The name of a type without the namespaces and classes that it is in.
template <typename T>
std::string name_of_type() {
  const std::string_view function = __PRETTY_FUNCTION__;  // "... [with T = ttrace::...::Run; ...]"
  std::string_view type = function.substr(function.find("T = ") + 4);
  type = type.substr(0, type.find_first_of(";]"));
  return std::string(type.substr(type.rfind("::") + 2));
}

class SchemaMaker {
 public:
  using Json = nlohmann::ordered_json;

  Json answer(std::string_view id) {
    answer::Answer none;
    Json whole = object_of(none);
    whole["properties"]["schema"] = {{"const", id}};
    whole["required"].insert(whole["required"].begin(), "schema");
    Json out{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
             {"title", "The answer of ttrace compare, audit or localize"}};
    out.update(whole);
    defs_["number"] = {{"anyOf", {{{"type", "number"}}, {{"enum", {"nan", "inf", "-inf"}}}}}};
    out["$defs"] = defs_;
    return out;
  }

 private:
  // The archive of one object.
  class Object {
   public:
    explicit Object(SchemaMaker& maker) : maker_(maker) {}

    template <typename T>
    void put(std::string_view name, T& value) {
      add(name, maker_.of(value));
      if (required_) schema["required"].push_back(name);
    }
    template <typename T>
    void maybe(std::string_view name, T& value) {
      add(name, maker_.of_what_is_there(value));
    }
    template <typename T>
    void nullable(std::string_view name, T& value) {
      add(name, {{"anyOf", {maker_.of_what_is_there(value), {{"type", "null"}}}}});
      if (required_) schema["required"].push_back(name);
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
    void inlined(base::HeapOptional<T>& value, std::string_view) {
      const bool required = std::exchange(required_, false);
      answer::each_member(*this, value.emplace());
      required_ = required;
    }
    void rest(answer::Named<std::string>&, std::initializer_list<std::string_view>) {
      schema["additionalProperties"] = Json::object();
    }

    Json schema{{"type", "object"}, {"required", Json::array()}, {"properties", Json::object()}};

   private:
    void add(std::string_view name, Json of) {
      if (name == "outcome") of = {{"enum", answer::all_outcomes()}};
      if (name == "phase" && of.contains("type")) of = {{"enum", phases()}};
      schema["properties"][name] = std::move(of);
    }

    SchemaMaker& maker_;
    bool required_ = true;
  };

  static Json phases() {
    Json names = Json::array();
    for (int phase = 0; phase <= static_cast<int>(localize::Phase::kState); ++phase) {
      names.push_back(localize::phase_name(static_cast<localize::Phase>(phase)));
    }
    return names;
  }

  template <typename T>
  Json object_of(T& value) {
    Object object(*this);
    answer::each_member(object, value);
    return object.schema;
  }

  Json of(bool&) { return {{"type", "boolean"}}; }
  Json of(std::uint64_t&) { return {{"type", "integer"}, {"minimum", 0}}; }
  Json of(std::int64_t&) { return {{"type", "integer"}}; }
  Json of(double&) { return {{"$ref", "#/$defs/number"}}; }
  Json of(answer::AnsweredTensor::Exact&) { return {{"$ref", "#/$defs/number"}}; }
  Json of(std::string&) { return {{"type", "string"}}; }
  Json of(std::string_view&) { return {{"type", "string"}}; }
  Json of(base::Message::Value&) { return {{"type", {"string", "number"}}}; }
  Json of(answer::Answer::Raw&) { return Json::object(); }
  Json of(tensor::Shape&) {
    return {{"type", "array"}, {"items", {{"type", "integer"}, {"minimum", 0}}}};
  }
  Json of(trace::Kind&) {
    Json kinds = Json::array();
    for (const trace::Kind kind : trace::kAllKinds) kinds.push_back(kind_name(kind));
    return {{"enum", kinds}};
  }
  template <typename T>
  Json of(std::vector<T>&) {
    T item{};
    return {{"type", "array"}, {"items", of(item)}};
  }
  template <typename T>
  Json of(answer::Named<T>&) {
    T value{};
    return {{"type", "object"}, {"additionalProperties", of(value)}};
  }
  Json of(answer::CauseValues&) {
    base::Message::Value value;
    return {{"type", "object"}, {"additionalProperties", of(value)}};
  }
  template <typename T>
  Json of(std::optional<T>& value) {
    return {{"anyOf", {of_what_is_there(value), {{"type", "null"}}}}};
  }
  template <typename T>
    requires std::is_class_v<T>
  Json of(T& value) {
    const std::string name = name_of_type<T>();
    if (!defs_.contains(name)) {
      defs_[name] = nullptr;  // it may hold itself
      defs_[name] = object_of(value);
    }
    return {{"$ref", "#/$defs/" + name}};
  }
  template <typename T>
  Json of_what_is_there(T& value) {
    return of(value);
  }
  template <typename T>
  Json of_what_is_there(std::optional<T>& value) {
    return of(value.emplace());
  }

  Json defs_ = Json::object();
};

}  // namespace ttrace::test
