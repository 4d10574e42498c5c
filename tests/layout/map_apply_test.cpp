#include "layout/map_apply.h"

#include <algorithm>

#include "base/refusal.h"
#include "layout/map_rules.h"
#include "support/memory_trace.h"

namespace ttrace::layout::map_apply_test {
namespace {

using test::check_refused;
using test::make_entry;
using trace::Kind;
using Names = std::vector<std::string>;

std::vector<MapRule> rules_of(const std::string& list) {
  return parse_map_rules(R"({"schema": "ttrace.map/2", "candidate": )" + list + "}", "map.json")
      .candidate;
}

struct Trace {
  explicit Trace(std::vector<trace::TensorEntry> made) : entries(std::move(made)) {}

  // They own their entries, so that they may outlive the trace.
  std::vector<ViewPtr> views() const {
    const auto same = [](const trace::TensorEntry& entry) { return entry; };
    std::vector<ViewPtr> all;
    for (const trace::TensorEntry& entry : entries) {
      all.push_back(with_entries(view_of(entry), same));
    }
    return all;
  }
  Mapped mapped(const std::string& list) const {
    return apply_map(rules_of(list), "map.json", views());
  }

  std::vector<trace::TensorEntry> entries;
};

Trace named(const Names& names, const tensor::Shape& shape = {4, 2}) {
  std::vector<trace::TensorEntry> entries;
  for (const std::string& name : names) entries.push_back(make_entry(name, shape));
  return Trace(entries);
}

Names names_of(const Mapped& mapped) {
  Names names;
  for (const ViewPtr& view : mapped.tensors) names.push_back(view->key.name);
  std::sort(names.begin(), names.end());
  return names;
}

const ViewPtr& view_named(const Mapped& mapped, const std::string& name) {
  for (const ViewPtr& view : mapped.tensors) {
    if (view->key.name == name) return view;
  }
  throw base::internal_error("no tensor ", name);
}

// Names of the stored tensors that a view is made of.
Names made_from(const ViewPtr& view) {
  Names names;
  for (const trace::TensorEntry* entry : stored_in(*view)) names.push_back(entry->key.name);
  return names;
}

TEST_CASE("without rules nothing changes") {
  const Trace trace = named({"a", "b"});
  CHECK(apply_map({}, "", trace.views()).tensors.size() == 2);
  CHECK(names_of(apply_map({}, "", trace.views())) == Names{"a", "b"});
}

TEST_CASE("names are changed, and those that no rule matches stay") {
  const Mapped mapped = named({"model.0.fc", "model.1.fc", "loss"})
                            .mapped(R"([{"from": "model.{i}.{w}", "to": "dec.{i}.{w}"}])");
  CHECK(names_of(mapped) == Names{"dec.0.fc", "dec.1.fc", "loss"});
  CHECK(made_from(view_named(mapped, "dec.1.fc")) == Names{"model.1.fc"});
  CHECK(mapped.warnings.empty());
}

TEST_CASE("the first rule that matches counts") {
  const Mapped mapped =
      named({"a.x", "a.y"})
          .mapped(R"([{"from": "a.x", "to": "first"}, {"from": "a.{n}", "to": "second.{n}"}])");
  CHECK(names_of(mapped) == Names{"first", "second.y"});
}

TEST_CASE("names may change places") {
  const Mapped mapped =
      named({"a", "b"}).mapped(R"([{"from": "a", "to": "b"}, {"from": "b", "to": "a"}])");
  CHECK(made_from(view_named(mapped, "a")) == Names{"b"});
  CHECK(made_from(view_named(mapped, "b")) == Names{"a"});
}

TEST_CASE("a kind restricts a rule, and the next one takes the others") {
  const Trace trace({make_entry("a", {2}, Kind::kParam), make_entry("a", {2}, Kind::kMainGrad)});
  const Mapped mapped =
      trace.mapped(R"([{"from": "a", "to": "p", "kind": "param"}, {"from": "a", "to": "rest"}])");
  CHECK(names_of(mapped) == Names{"p", "rest"});
  CHECK(view_named(mapped, "rest")->key.kind == Kind::kMainGrad);
}

TEST_CASE("a rule that no tensor is left for is refused with the nearest names") {
  const Trace trace = named({"model.fc1", "model.fc2"});
  check_refused([&] { trace.mapped(R"([{"from": "model.fc3", "to": "x"}])"); },
                {"map.json: /candidate/0/from", "matches model.fc3",
                 "nearest names are model.fc1 and model.fc2"});
  check_refused(
      [&] {
        trace.mapped(R"([{"from": "model.{x}", "to": "{x}"},
                                       {"from": "model.fc1", "to": "x"}])");
      },
      {"/candidate/1/from", "no tensor that an earlier rule leaves"});
  check_refused([&] { trace.mapped(R"([{"from": "model.{x}", "to": "{x}", "kind": "loss"}])"); },
                {"/candidate/0/from"});
  check_refused([&] { Trace({}).mapped(R"([{"from": "a", "to": "x"}])"); }, {"matches a"});
}

TEST_CASE("two tensors of one name are refused with both") {
  const Trace trace = named({"x.a", "y.a", "a"});
  check_refused([&] { trace.mapped(R"([{"from": "{m}.a", "to": "b"}])"); },
                {"map.json", "two tensors would be b · output · step 0", "x.a and y.a"});
  check_refused([&] { trace.mapped(R"([{"from": "x.{n}", "to": "{n}"}])"); },
                {"two tensors would be a · output", "x.a", "and a"});
  check_refused([&] { trace.mapped(R"([{"from": "a", "to": ["c", "c"], "split": {"dim": 0}}])"); },
                {"two tensors would be c"});
  const auto error = test::error_of([&] { trace.mapped(R"([{"from": "{m}.a", "to": "b"}])"); });
  REQUIRE(error);
  const std::string message = error->what();
  CHECK(message.find("map.json") == message.rfind("map.json"));
}

TEST_CASE("a name that cannot name a tensor is refused at its rule") {
  const Trace trace = named({"a"});
  for (const char* name : {"..", "x/y", "."}) {
    check_refused([&] { trace.mapped(std::string(R"([{"from": "a", "to": ")") + name + R"("}])"); },
                  {"map.json: /candidate/0", name});
  }
  const Trace longest = named({std::string(300, 'x')});
  check_refused([&] { longest.mapped(R"([{"from": "{a}", "to": "{a}.suffix.{b}"}])"); }, {"{b}"});
}

TEST_CASE("tensors are joined in the order of the patterns, whatever the trace's") {
  const Mapped mapped =
      named({"0.v", "0.q", "0.k"})
          .mapped(
              R"([{"from": ["{i}.q", "{i}.k", "{i}.v"], "to": "{i}.qkv", "concat": {"dim": 0}}])");
  REQUIRE(names_of(mapped) == Names{"0.qkv"});
  CHECK(made_from(mapped.tensors[0]) == Names{"0.q", "0.k", "0.v"});
  CHECK(mapped.tensors[0]->shape == tensor::Shape{12, 2});
}

TEST_CASE("tensors of other steps, kinds, micro-batches, calls and copies are joined apart") {
  std::vector<trace::TensorEntry> entries;
  for (const char* name : {"a", "b"}) {
    entries.resize(entries.size() + 6, make_entry(name, {1}));
    trace::TensorEntry* last = &entries[entries.size() - 5];
    last[0].key.step = 1;
    last[1].key.kind = Kind::kGradOutput;
    last[2].key.microbatch = 0;
    last[3].key.call = 1;
    last[4].key.copy = 1;
  }
  const Mapped mapped =
      Trace(entries).mapped(R"([{"from": ["a", "b"], "to": "ab", "concat": {"dim": 0}}])");
  REQUIRE(mapped.tensors.size() == 6);
  for (const ViewPtr& view : mapped.tensors) {
    const auto stored = stored_in(*view);
    REQUIRE(stored.size() == 2);
    trace::TensorKey second = stored[0]->key;
    second.name = "b";
    CHECK(stored[1]->key == second);
    CHECK(view->shape == tensor::Shape{2});
  }
}

TEST_CASE("outputs of one number are joined with each other") {
  const Mapped mapped = named({"q", "q[1]", "k", "k[1]"})
                            .mapped(R"([{"from": ["q", "k"], "to": "qk", "concat": {"dim": 1}}])");
  CHECK(names_of(mapped) == Names{"qk", "qk[1]"});
  CHECK(made_from(view_named(mapped, "qk[1]")) == Names{"q[1]", "k[1]"});
}

TEST_CASE("where others are missing the tensors stay as they are, with a warning each") {
  const Mapped mapped =
      named({"0.q", "0.k", "1.q", "1.k", "1.v"})
          .mapped(
              R"([{"from": ["{i}.q", "{i}.k", "{i}.v"], "to": "{i}.qkv", "concat": {"dim": 0}}])");
  CHECK(names_of(mapped) == Names{"0.k", "0.q", "1.qkv"});
  CHECK(mapped.warnings ==
        Names{"map.json: /candidate/0: 0.q · output · step 0 is left as it is: there is no 0.v to "
              "join it with",
              "map.json: /candidate/0: 0.k · output · step 0 is left as it is: there is no 0.v to "
              "join it with"});
}

TEST_CASE("trimming, padding and transposing happen in this order") {
  const Trace trace = named({"a"}, {5, 3});
  const Mapped one = trace.mapped(R"([{"from": "a", "to": "b", "trim": {"dim": 0, "size": 4},
                                      "pad": {"dim": 0, "size": 6}, "transpose": [1, 0]}])");
  CHECK(one.tensors[0]->shape == tensor::Shape{3, 6});
  const Mapped parts = trace.mapped(R"([{"from": "a", "to": ["b", "c"],
      "trim": {"dim": 0, "size": 4}, "transpose": [1, 0], "split": {"dim": 1}}])");
  REQUIRE(parts.tensors.size() == 2);
  CHECK(parts.tensors[1]->shape == tensor::Shape{3, 2});
  const Mapped joined =
      named({"a", "b"}, {5, 3})
          .mapped(
              R"([{"from": ["a", "b"], "to": "c", "concat": {"dim": 0}, "trim": {"dim": 0, "size": 9},
          "transpose": [1, 0]}])");
  CHECK(joined.tensors[0]->shape == tensor::Shape{3, 9});
}

TEST_CASE("a shape that does not allow it is refused at its rule, with the tensor") {
  const Trace trace = named({"a", "b"}, {5, 3});
  check_refused([&] { trace.mapped(R"([{"from": "a", "to": ["c", "d"], "split": {"dim": 0}}])"); },
                {"map.json: /candidate/0: ", "a · output · step 0 is [5, 3]",
                 "5 elements cannot be dealt to 2 groups"});
  check_refused([&] { trace.mapped(R"([{"from": ["a", "b"], "to": "c", "concat": {"dim": 2}}])"); },
                {"map.json: /candidate/0: ", "no dimension 2"});
  check_refused([&] { trace.mapped(R"([{"from": "b", "to": "c", "transpose": [0]}])"); },
                {"map.json: /candidate/0: b · output", "[5, 3]", "no permutation"});
}

trace::Module module_of(const std::string& name, Names inputs, Names params = {}) {
  trace::Module module;
  module.name = name;
  module.inputs = std::move(inputs);
  module.params = std::move(params);
  return module;
}

const trace::Module& module_named(const std::vector<trace::Module>& modules,
                                  const std::string& name) {
  for (const trace::Module& module : modules) {
    if (module.name == name) return module;
  }
  throw base::internal_error("no module ", name);
}

TEST_CASE("the data flow has the new names of modules, values and parameters") {
  trace::Module loss = module_of("loss", {});
  loss.computed_from = {"m.b", "m.b[1]"};
  trace::Module b = module_of("m.b", {"m.a[1]"}, {"m.b.weight"});
  b.outputs = {"m.b", "m.b[1]"};
  const auto mapped = mapped_modules(rules_of(R"([{"from": "m.{x...}", "to": "d.{x}"}])"),
                                     {module_of("m.a", {}), b, loss});
  REQUIRE(mapped.size() == 3);
  CHECK(module_named(mapped, "d.b").inputs == Names{"d.a[1]"});
  CHECK(module_named(mapped, "d.b").params == Names{"d.b.weight"});
  CHECK(module_named(mapped, "d.b").outputs == Names{"d.b", "d.b[1]"});
  CHECK(module_named(mapped, "loss").computed_from == Names{"d.b", "d.b[1]"});
  CHECK(mapped_modules({}, {b}).at(0).name == "m.b");
}

TEST_CASE("modules whose outputs become one are one module of the data flow") {
  const auto mapped =
      mapped_modules(rules_of(R"([{"from": ["q", "k"], "to": "qk", "concat": {"dim": 0}},
                   {"from": ["q.w", "k.w"], "to": "qk.w", "concat": {"dim": 0}}])"),
                     {module_of("x", {}), module_of("q", {"x"}, {"q.w"}),
                      module_of("k", {"x", "y"}, {"k.w"}), module_of("attn", {"q", "k"})});
  const trace::Module& joined = module_named(mapped, "qk");
  CHECK(joined.inputs == Names{"x", "y"});
  CHECK(joined.params == Names{"qk.w"});
  CHECK(module_named(mapped, "attn").inputs == Names{"qk"});
}

TEST_CASE("a module whose output becomes several is as many modules") {
  const auto mapped =
      mapped_modules(rules_of(R"([{"from": "gu", "to": ["gate", "up"], "split": {"dim": 0}}])"),
                     {module_of("gu", {"x"}, {"gu.w"}), module_of("act", {"gu"})});
  CHECK(module_named(mapped, "gate").inputs == Names{"x"});
  CHECK(module_named(mapped, "up").params == Names{"gu.w"});
  CHECK(module_named(mapped, "act").inputs == Names{"gate", "up"});
}

TEST_CASE("a module whose output is cut or turned has its new name") {
  for (const char* how : {R"("trim": {"dim": 0, "size": 1})", R"("transpose": [1, 0])"}) {
    const auto rules =
        rules_of(std::string(R"([{"from": "head", "to": "output_layer", )") + how + "}]");
    CHECK(mapped_modules(rules, {module_of("head", {"x"})}).at(0).name == "output_layer");
  }
}

TEST_CASE("a rule for parameters leaves the values of the data flow alone, and the reverse") {
  const std::vector<trace::Module> modules{module_of("a", {"x"}, {"a.w"})};
  const auto params = mapped_modules(
      rules_of(R"([{"from": "{n...}", "to": "p.{n}", "kind": ["param", "main_grad"]}])"), modules);
  CHECK(module_named(params, "a").inputs == Names{"x"});
  CHECK(module_named(params, "a").params == Names{"p.a.w"});
  const auto values = mapped_modules(
      rules_of(R"([{"from": "{n...}", "to": "v.{n}", "kind": ["output", "grad_output"]}])"),
      modules);
  CHECK(module_named(values, "v.a").inputs == Names{"v.x"});
  CHECK(module_named(values, "v.a").params == Names{"a.w"});
}

}  // namespace
}  // namespace ttrace::layout::map_apply_test
