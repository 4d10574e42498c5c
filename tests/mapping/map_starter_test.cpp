#include "mapping/map_starter.h"

#include <algorithm>

#include "engine/compare_traces.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::mapping::map_starter_test {
namespace {

using layout::MapFile;
using layout::MapRule;
using test::make_entry;
using test::MemoryTrace;
using trace::Kind;
using Names = std::vector<std::string>;
using Values = std::vector<double>;

// Numbers that no other call gives.
Values numbers(std::size_t count, double seed) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = seed + static_cast<double>(i) / 64;
  return values;
}

Values joined(std::initializer_list<Values> all) {
  Values values;
  for (const Values& part : all) values.insert(values.end(), part.begin(), part.end());
  return values;
}

trace::Module module_of(const std::string& name, Names params = {}) {
  trace::Module module;
  module.name = name;
  module.params = std::move(params);
  return module;
}

Names texts(const std::vector<layout::NamePattern>& patterns) {
  Names names;
  for (const layout::NamePattern& pattern : patterns) names.push_back(pattern.text());
  return names;
}

const MapRule& rule_for(const std::vector<MapRule>& rules, const std::string& from) {
  for (const MapRule& rule : rules) {
    if (rule.from.front().text() == from) return rule;
  }
  throw base::internal_error("no rule for ", from);
}

layout::MapRules read(const MapFile& file) {
  return layout::parse_map_rules(layout::map_file_text(file), "starter.json");
}

comparison::CompareReport compared(const MemoryTrace& reference, const MemoryTrace& candidate,
                                   const MapFile& file) {
  engine::CompareOptions options{{}, 1, {}};
  options.map = read(file);
  return engine::compare_traces(reference, candidate, {}, options);
}

// Two layers of gate and up, [2, 3] each, with a norm of ones and their values, [1, 2] each.
MemoryTrace apart(int layers = 2) {
  MemoryTrace made;
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = base::concat("layers.", layer, ".mlp");
    made.put(make_entry(name + ".gate.weight", {2, 3}, Kind::kParam), numbers(6, 10 + layer));
    made.put(make_entry(name + ".up.weight", {2, 3}, Kind::kParam), numbers(6, 20 + layer));
    made.put(make_entry(name + ".norm.weight", {3}, Kind::kParam), {1, 1, 1});
    for (const Kind kind : {Kind::kOutput, Kind::kGradOutput}) {
      made.put(make_entry(name + ".gate", {1, 2}, kind), numbers(2, 30 + layer));
      made.put(make_entry(name + ".up", {1, 2}, kind), numbers(2, 40 + layer));
    }
    for (const char* part : {".gate", ".up"}) {
      made.put(make_entry(name + part, {1, 3}, Kind::kInput), numbers(3, 50 + layer));
      made.edit().modules.push_back(module_of(name + part, {name + part + ".weight"}));
    }
    made.edit().modules.push_back(module_of(name + ".norm", {name + ".norm.weight"}));
    made.put(make_entry(name + ".norm", {1, 3}), numbers(3, 60 + layer));
    made.put(make_entry(name, {1, 3}), numbers(3, 70 + layer));
    made.put(make_entry(name + ".act", {1, 2}), numbers(2, 80 + layer));
  }
  made.put(make_entry("table", {4}), numbers(4, 90));
  return made;
}

// The same with both in one, in other names; up first in layers that were exchanged.
MemoryTrace fused(bool all_exchanged = false, int layers = 2, int exchanged_layer = -1) {
  MemoryTrace made;
  for (int layer = 0; layer < layers; ++layer) {
    const bool exchanged = all_exchanged || layer == exchanged_layer;
    const std::string name = base::concat("blocks.", layer, ".ffn");
    const Values gate = numbers(6, 10 + layer);
    const Values up = numbers(6, 20 + layer);
    made.put(make_entry(name + ".fc1.weight", {4, 3}, Kind::kParam),
             exchanged ? joined({up, gate}) : joined({gate, up}));
    made.put(make_entry(name + ".ln.weight", {3}, Kind::kParam), {1, 1, 1});
    for (const Kind kind : {Kind::kOutput, Kind::kGradOutput}) {
      made.put(make_entry(name + ".fc1", {1, 4}, kind),
               joined({numbers(2, 30 + layer), numbers(2, 40 + layer)}));
    }
    made.put(make_entry(name + ".fc1", {1, 3}, Kind::kInput), numbers(3, 50 + layer));
    made.edit().modules.push_back(module_of(name + ".fc1", {name + ".fc1.weight"}));
    made.edit().modules.push_back(module_of(name + ".ln", {name + ".ln.weight"}));
    made.put(make_entry(name + ".ln", {1, 3}), numbers(3, 60 + layer));
    made.put(make_entry(name, {1, 3}), numbers(3, 70 + layer));
    made.put(make_entry(name + ".silu", {1, 2}), numbers(2, 80 + layer));
  }
  return made;
}

TEST_CASE("a starter splits a fused matrix, and what goes in and out of it") {
  const MapFile file = start_map(apart(), fused(), 1);
  const MapRule& weight = rule_for(file.candidate, "blocks.{i}.ffn.fc1.weight");
  CHECK(texts(weight.to) == Names{"layers.{i}.mlp.gate.weight", "layers.{i}.mlp.up.weight"});
  CHECK(weight.dim == 0);
  CHECK(weight.sizes == std::vector<std::uint64_t>{2, 2});
  CHECK(texts(rule_for(file.candidate, "blocks.{i}.ffn").to) == Names{"layers.{i}.mlp"});
  CHECK(texts(rule_for(file.candidate, "blocks.{i}.ffn.silu").to) == Names{"layers.{i}.mlp.act"});
  CHECK(file.ambiguous.empty());
  REQUIRE(file.unmatched_reference.size() == 1);
  CHECK(texts(file.unmatched_reference[0].from) == Names{"table"});
  CHECK(file.unmatched_candidate.empty());
  const comparison::CompareReport out = compared(apart(), fused(), file);
  CHECK(out.counts.at(judge::Outcome::kMissing) == 1);
  CHECK(out.counts.at(judge::Outcome::kMatch) + 1 == out.results.size());
}

TEST_CASE("a starter says which layer is unlike all others") {
  const auto unlike = [](const MapFile& file) {
    return std::count_if(file.notes.begin(), file.notes.end(), [](const std::string& note) {
      return note.find("is this layer the bug?") != std::string::npos;
    });
  };
  const MapFile file = start_map(apart(4), fused(false, 4, 2), 1);
  CHECK(unlike(file) == 1);
  CHECK(file.notes.front() ==
        "blocks.2.ffn.fc1.weight is along dimension 0 of layers.*.mlp.up.weight, "
        "layers.*.mlp.gate.weight; 3 others like it are along dimension 0 of "
        "layers.*.mlp.gate.weight, layers.*.mlp.up.weight: is this layer the bug? The rule would "
        "hide it");
  CHECK(unlike(start_map(apart(4), fused(false, 4), 1)) == 0);
  CHECK(unlike(start_map(apart(4), fused(true, 4), 1)) == 0);
  // Nobody knows which one of two is unlike.
  CHECK(unlike(start_map(apart(2), fused(false, 2, 1), 1)) == 0);
}

TEST_CASE("a starter joins what the reference has in one") {
  const MapFile file = start_map(fused(), apart(), 1);
  const MapRule& weight = rule_for(file.candidate, "layers.{i}.mlp.gate.weight");
  CHECK(weight.from.size() == 2);
  CHECK(texts(weight.to) == Names{"blocks.{i}.ffn.fc1.weight"});
  // One tensor under several names is told by the side that has the one.
  REQUIRE(file.reference.size() == 1);
  CHECK(file.reference[0].same);
  CHECK(texts(file.reference[0].from) == Names{"blocks.{i}.ffn.fc1"});
  const comparison::CompareReport out = compared(fused(), apart(), file);
  CHECK(out.counts.at(judge::Outcome::kExtra) == 1);
  CHECK(out.counts.at(judge::Outcome::kMatch) + 1 == out.results.size());
}

TEST_CASE("parts in another order are noted") {
  CHECK(start_map(apart(), fused(), 1).notes.size() == 2);  // the norms, of equal values
  const MapFile file = start_map(apart(), fused(true), 1);
  CHECK(texts(rule_for(file.candidate, "blocks.{i}.ffn.fc1.weight").to) ==
        Names{"layers.{i}.mlp.up.weight", "layers.{i}.mlp.gate.weight"});
  REQUIRE(file.notes.size() == 4);
  const bool told = std::any_of(file.notes.begin(), file.notes.end(), [](const auto& note) {
    return note.find("blocks.0.ffn.fc1.weight holds layers.0.mlp.up.weight, layers.0.mlp.gate") ==
           0;
  });
  CHECK(told);
}

TEST_CASE("parts in groups, transposed, and with rows that the other lacks") {
  const Values q = numbers(8, 1);   // [4, 2]
  const Values k = numbers(4, 10);  // [2, 2]
  MemoryTrace reference;
  reference.put(make_entry("q", {4, 2}, Kind::kParam), q);
  reference.put(make_entry("k", {2, 2}, Kind::kParam), k);
  reference.put(make_entry("t", {2, 3}, Kind::kParam), {1, 2, 3, 4, 5, 6});
  reference.put(make_entry("head", {3, 2}, Kind::kParam), numbers(6, 30));
  MemoryTrace candidate;
  candidate.put(make_entry("qk", {6, 2}, Kind::kParam),
                joined({Values(q.begin(), q.begin() + 4), Values(k.begin(), k.begin() + 2),
                        Values(q.begin() + 4, q.end()), Values(k.begin() + 2, k.end())}));
  candidate.put(make_entry("turned", {3, 2}, Kind::kParam), {1, 4, 2, 5, 3, 6});
  candidate.put(make_entry("padded", {5, 2}, Kind::kParam), joined({numbers(6, 30), {7, 7, 8, 8}}));
  const MapFile file = start_map(reference, candidate, 1);
  const MapRule& grouped = rule_for(file.candidate, "qk");
  CHECK(texts(grouped.to) == Names{"q", "k"});
  CHECK(grouped.groups == 2);
  CHECK(grouped.sizes == std::vector<std::uint64_t>{4, 2});
  CHECK(rule_for(file.candidate, "turned").transpose == std::vector<std::size_t>{1, 0});
  CHECK_FALSE(rule_for(file.candidate, "padded").trim);
  CHECK(file.notes.back().find(R"("trim":{"dim":0,"size":3})") != std::string::npos);
  const comparison::CompareReport report = compared(reference, candidate, file);
  CHECK(report.counts.at(judge::Outcome::kMatch) == 3);
  CHECK(report.counts.at(judge::Outcome::kIncomparable) == 1);
}

TEST_CASE("values with tokens first are turned") {
  MemoryTrace reference;
  reference.put(make_entry("m.fc.weight", {1, 1}, Kind::kParam), {3});
  reference.put(make_entry("m.fc", {2, 3, 1}), {1, 2, 3, 4, 5, 6});
  reference.put(make_entry("m.fc", {2}, Kind::kInput), {7, 8});
  reference.put(make_entry("m.fc[1]", {1}), {9});
  MemoryTrace candidate;
  candidate.put(make_entry("n.linear.weight", {1, 1}, Kind::kParam), {3});
  candidate.put(make_entry("n.linear", {3, 2, 1}), {1, 4, 2, 5, 3, 6});
  candidate.put(make_entry("n.linear", {2}, Kind::kInput), {7, 8});
  candidate.put(make_entry("n.linear[1]", {1}), {9});
  const MapFile file = start_map(reference, candidate, 1);
  const MapRule& turned = rule_for(file.candidate, "n.linear");
  CHECK(turned.transpose == std::vector<std::size_t>{1, 0, 2});
  CHECK(turned.kinds == std::vector{Kind::kOutput});
  CHECK(compared(reference, candidate, file).counts.at(judge::Outcome::kMatch) == 4);
}

TEST_CASE("biases of zeros go where their weights go") {
  MemoryTrace reference;
  reference.put(make_entry("m.q.weight", {2, 2}, Kind::kParam), numbers(4, 1));
  reference.put(make_entry("m.k.weight", {2, 2}, Kind::kParam), numbers(4, 5));
  reference.put(make_entry("m.q.bias", {2}, Kind::kParam), {0, 0});
  reference.put(make_entry("m.k.bias", {2}, Kind::kParam), {0, 0});
  MemoryTrace candidate;
  candidate.put(make_entry("n.qk.weight", {4, 2}, Kind::kParam),
                joined({numbers(4, 1), numbers(4, 5)}));
  candidate.put(make_entry("n.qk.bias", {4}, Kind::kParam), {0, 0, 0, 0});
  const MapFile file = start_map(reference, candidate, 1);
  const MapRule& rule = rule_for(file.candidate, "n.qk.bias");
  CHECK(texts(rule.to) == Names{"m.q.bias", "m.k.bias"});
  CHECK(rule.sizes == std::vector<std::uint64_t>{2, 2});
  CHECK(file.notes.size() == 1);
  CHECK(compared(reference, candidate, file).counts.at(judge::Outcome::kMatch) == 4);
}

TEST_CASE("a pattern is not made where it would mean other tensors too") {
  MemoryTrace reference;
  MemoryTrace candidate;
  reference.put(make_entry("a.0.w", {2}, Kind::kParam), {1, 2});
  reference.put(make_entry("b.5.w", {2}, Kind::kParam), {3, 4});
  candidate.put(make_entry("x.0.w", {2}, Kind::kParam), {1, 2});
  candidate.put(make_entry("x.1.w", {2}, Kind::kParam), {3, 4});
  const MapFile file = start_map(reference, candidate, 1);
  CHECK(texts(rule_for(file.candidate, "x.0.w").to) == Names{"a.0.w"});
  CHECK(texts(rule_for(file.candidate, "x.1.w").to) == Names{"b.5.w"});
}

TEST_CASE("what may be meant is listed, and two runs of one model need no rules") {
  MemoryTrace reference;
  MemoryTrace candidate;
  reference.put(make_entry("a", {2}, Kind::kParam), {1, 2});
  candidate.put(make_entry("x", {2}, Kind::kParam), {3, 4});
  candidate.put(make_entry("y", {2}, Kind::kParam), {5, 6});
  CHECK(start_map(reference, candidate, 1).ambiguous.at("a") == Names{"x", "y"});
  const MapFile none = start_map(apart(), apart(), 1);
  CHECK(none.candidate.empty());
  CHECK(none.reference.empty());
  CHECK(none.unmatched_reference.empty());
}

}  // namespace
}  // namespace ttrace::mapping::map_starter_test
