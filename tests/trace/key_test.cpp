#include "trace/key.h"

#include <limits>
#include <set>

#include "support/catch.h"

namespace ttrace::trace::key_test {
namespace {

TensorKey key(const std::string& name, Kind kind = Kind::kOutput) {
  TensorKey made;
  made.name = name;
  made.kind = kind;
  return made;
}

TEST_CASE("every kind is found again by its name") {
  std::set<std::string_view> names;
  for (const Kind kind : kAllKinds) {
    CHECK(parse_kind(kind_name(kind)) == kind);
    names.insert(kind_name(kind));
  }
  CHECK(names.size() == kAllKinds.size());
  CHECK_FALSE(parse_kind("").has_value());
  CHECK_FALSE(parse_kind("Output").has_value());
  CHECK_FALSE(parse_kind("grad").has_value());
}

TEST_CASE("a dataset path names every part of the key") {
  TensorKey full = key("decoder.layers.3.mlp", Kind::kMainGrad);
  CHECK(dataset_path(full) == "/step_000000/main_grad/decoder.layers.3.mlp");
  full.step = 12;
  full.microbatch = 0;
  CHECK(dataset_path(full) == "/step_000012/mb_0000/main_grad/decoder.layers.3.mlp");
  full.microbatch = 34;
  full.call = 1;
  full.copy = 2;
  CHECK(dataset_path(full) ==
        "/step_000012/mb_0034/call_0001/copy_0002/main_grad/decoder.layers.3.mlp");
}

TEST_CASE("digits in a dataset path are a minimum width") {
  TensorKey wide = key("x");
  wide.step = 12345678;
  wide.microbatch = std::numeric_limits<std::uint64_t>::max();
  CHECK(dataset_path(wide) == "/step_12345678/mb_18446744073709551615/output/x");
}

TEST_CASE("different keys have different dataset paths") {
  std::set<std::string> paths;
  std::size_t keys = 0;
  for (const std::uint64_t step : {0U, 1U}) {
    for (const auto microbatch : {std::optional<std::uint64_t>(), {std::uint64_t{0}}, {1}}) {
      for (const std::uint64_t call : {0U, 1U}) {
        for (const std::uint64_t copy : {0U, 1U}) {
          for (const char* name : {"output", "mb_0000", "call_0001"}) {
            paths.insert(dataset_path({step, microbatch, Kind::kOutput, name, call, copy}));
            ++keys;
          }
        }
      }
    }
  }
  CHECK(paths.size() == keys);
}

TEST_CASE("a key reads as people say it") {
  TensorKey spoken = key("decoder.layers.3.mlp");
  CHECK(to_string(spoken) == "decoder.layers.3.mlp · output · step 0");
  spoken.microbatch = 1;
  spoken.call = 2;
  spoken.copy = 3;
  CHECK(to_string(spoken) == "decoder.layers.3.mlp · output · step 0 · mb 1 · call 2 · copy 3");
}

TEST_CASE("keys order by step first and an absent micro-batch comes before the first") {
  TensorKey early = key("z");
  TensorKey late = key("a");
  late.step = 1;
  CHECK(early < late);
  TensorKey of_batch = early;
  of_batch.microbatch = 0;
  CHECK(early < of_batch);
  CHECK(early == key("z"));
  CHECK(early != key("z", Kind::kInput));
}

TEST_CASE("ordinary names are allowed") {
  for (const char* name : {"a", "(model)", "router[1]", "decoder.layers.0.mlp", "...", ".hidden",
                           "größe", "a b", "a\\b", "~"}) {
    CAPTURE(name);
    CHECK_FALSE(name_problem(name).has_value());
  }
  CHECK_FALSE(name_problem(std::string(512, 'x')).has_value());
}

TEST_CASE("names that leave their place or break a line are not") {
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("a/b"), std::string("/"),
        std::string("../x"), std::string("a\nb"), std::string("a\0b", 3), std::string("\x1b[2J"),
        std::string("a\x7f"),
        std::string("a\xc2\x9b"
                    "2J"),
        std::string("\xc2\x85"), std::string(513, 'x')}) {
    CAPTURE(name);
    CHECK(name_problem(name).has_value());
  }
}

TEST_CASE("a value belongs to the module before its brackets") {
  CHECK(module_of_value("a") == "a");
  CHECK(module_of_value("a[1]") == "a");
  CHECK(module_of_value("layers.3.router[12]") == "layers.3.router");
  CHECK(module_of_value("layers.3[attention_mask]") == "layers.3");
  CHECK(module_of_value("a[cache][0]") == "a");
}

TEST_CASE("brackets that hold nothing or do not pair belong to the name") {
  CHECK(module_of_value("a[]") == "a[]");
  CHECK(module_of_value("a[1") == "a[1");
  CHECK(module_of_value("a1]") == "a1]");
  CHECK(module_of_value("a[x]]") == "a[x]]");
  CHECK(module_of_value("a[x[y]]") == "a[x[y]]");
  CHECK(module_of_value("]").size() == 1);
  CHECK(module_of_value("").empty());
  // Nothing is left that could be a module's name.
  CHECK(module_of_value("[1]") == "[1]");
}

TEST_CASE("a tensor belongs to the module that its kind and name say") {
  const auto of = [](Kind kind, const std::string& name) {
    return module_of({0, std::nullopt, kind, name});
  };
  CHECK(of(Kind::kParam, "layers.0.norm.weight") == "layers.0.norm");
  CHECK(of(Kind::kMainGrad, "weight") == kWholeModel);
  CHECK(of(Kind::kOptimizerState, "layers.0.norm.weight.exp_avg") == "layers.0.norm");
  CHECK(of(Kind::kOptimizerState, "weight.exp_avg") == kWholeModel);
  CHECK(of(Kind::kInput, "layers.0.norm[mask]") == "layers.0.norm");
  CHECK(of(Kind::kLoss, "loss") == "loss");
}

TEST_CASE("a module is inside of those around it, at any depth, and of the model") {
  CHECK(is_inside("layers.0.norm", "layers"));
  CHECK(is_inside("layers", kWholeModel));
  CHECK_FALSE(is_inside("layers.0", "layers.0"));
  CHECK_FALSE(is_inside("layers.01", "layers.0"));
  CHECK_FALSE(is_inside(kWholeModel, kWholeModel));
  CHECK(owner_of("layers.0.norm") == "layers.0");
  CHECK(owner_of("layers") == kWholeModel);
}

}  // namespace
}  // namespace ttrace::trace::key_test
