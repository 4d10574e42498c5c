#include "trace/manifest.h"

#include <set>

#include "base/refusal.h"
#include "trace/manifest_texts.h"

namespace ttrace::trace::manifest_test {
namespace {

using test::manifest_of;
using test::read_source_file;
using test::tensor_text;
using test::with_member;
using test::with_top;

// Writes, reads and writes again: nothing that the text says may get lost or change.
void check_round_trip(const Manifest& manifest) {
  const std::string text = manifest_text(manifest);
  CHECK(manifest_text(parse_manifest(text, "again.json")) == text);
}

TEST_CASE("the example of several meshes parses into what it says") {
  const Manifest manifest =
      parse_manifest(read_source_file("schemas/examples/meshes.json"), "meshes.json");
  CHECK(manifest.run.framework == "megatron-core");
  CHECK(manifest.run.precision == "bf16");
  CHECK(manifest.run.extra_json == R"({"layers":4})");
  REQUIRE(manifest.meshes.size() == 2);
  CHECK(manifest.meshes.at("").axes.size() == 3);
  CHECK(manifest.meshes.at("").ranks.empty());
  CHECK(manifest.meshes.at("expert").axes[1].name == "ep");
  CHECK(manifest.meshes.at("expert").ranks == std::vector<std::uint64_t>{0, 2, 1, 3, 4, 6, 5, 7});
  REQUIRE(manifest.tensors.size() == 5);
  const TensorEntry& qkv = manifest.tensors[0];
  CHECK(to_string(qkv.key) == "layers.0.attn.qkv.weight · main_grad · step 0");
  CHECK(qkv.dtype == tensor::DType::kFloat32);
  CHECK(qkv.computed_in == tensor::DType::kBFloat16);
  CHECK(qkv.shape == tensor::Shape{192, 64});
  CHECK(qkv.scale == 0.5);
  CHECK(qkv.held_at.at("pp") == std::vector<std::uint64_t>{0});
  CHECK(qkv.placements.at("dp") == Placement{Replicate{}});
  CHECK(qkv.placements.at("tp") == Placement{Shard{0, std::nullopt}});
  CHECK(manifest.tensors[1].key.microbatch == std::uint64_t{3});
  CHECK(manifest.tensors[1].placements.at("tp") == Placement{Partial{Reduction::kSum}});
  CHECK(manifest.tensors[1].placements.at("dp") == Placement{Only{1}});
  CHECK(manifest.tensors[2].placements.at("tp") == Placement{Shard{0, {{51, 50}}}});
  CHECK(manifest.tensors[3].mesh == "expert");
  CHECK(manifest.tensors[3].dtype == tensor::DType::kFloat8E4M3);
  CHECK(manifest.tensors[4].shape.empty());
  check_round_trip(manifest);
}

TEST_CASE("the example of a single file parses into what it says") {
  const Manifest manifest =
      parse_manifest(read_source_file("schemas/examples/single.json"), "single.json");
  REQUIRE(manifest.tensors.size() == 8);
  CHECK(manifest.meshes.at("").axes.empty());
  CHECK(manifest.tensors[1].order == std::uint64_t{0});
  CHECK_FALSE(manifest.tensors[0].order.has_value());
  CHECK(manifest.tensors[0].scale == 1);
  REQUIRE(manifest.optimizer.size() == 1);
  CHECK(manifest.optimizer[0].type == "sgd");
  CHECK(manifest.optimizer[0].numbers ==
        std::map<std::string, double>{{"lr", 0.1}, {"momentum", 0.9}});
  CHECK(manifest.optimizer[0].params == std::vector<std::string>{"proj.weight"});
  REQUIRE(manifest.modules.size() == 3);
  CHECK(manifest.modules[0].class_name == "Tiny");
  CHECK(manifest.modules[0].inputs.empty());
  CHECK(manifest.modules[0].computed_from == std::vector<std::string>{"proj"});
  CHECK(manifest.modules[1].op == "linear");
  CHECK(manifest.modules[1].called_at == "tiny.py:12 Tiny.forward");
  CHECK_FALSE(manifest.modules[1].computed_from.has_value());
  CHECK_FALSE(manifest.modules[1].outputs.has_value());
  check_round_trip(manifest);
}

TEST_CASE("every member of a manifest survives being written") {
  const std::string tensors =
      tensor_text(R"("microbatch": 3, "call": 1, "copy": 2, "dtype": "float8_e5m2",
          "computed_in": "bfloat16", "shape": [6, 4, 5], "scale": 0.1, "order": 17,
          "position": 2, "absent_on": [1, 4],
          "held_at": {"dp": [0, 2]}, "placements": {"tp": {"shard": 2}, "dp": {"partial": "max"}})") +
      "," +
      tensor_text(
          R"("dtype": "float32", "computed_in": "tf32", "shape": [5, 2], "complex": true, "mesh": "other",
          "placements": {"ep": {"shard": 0, "sizes": [0, 2, 2, 1]}})");
  const std::string more = R"(,
    "run": {"id": "f00d", "framework": "f", "model": "größe \"x\"", "precision": "p", "command": "a\nb",
            "created": "c", "collector": "d", "extra": {"z": [1, {"y": null}], "a": 0.1},
            "recorded": {"kinds": ["output", "main_grad"], "modules": ["layers.*"], "steps": [0, 7]},
            "unfinished": [0, 5], "updates_before": 3,
            "rewritten": [{"step": 1, "params": ["b", "a"]}],
            "products": {"matmul": "tf32", "convolution": "tf32"},
            "noise": {"seed": 18446744073709551615, "epsilon": 1e-7, "at": "emb"},
            "plan": {"digest": ")" +
                           std::string(60, '0') + R"(1a2f", "modules": ["a", "b.*"]}},
    "optimizer": [{"step": 1, "type": "adamw", "lr": 1e-3, "momentum": 0, "dampening": 0.5,
                   "nesterov": true, "maximize": false, "betas": [0.9, 0.999], "eps": 1e-8,
                   "amsgrad": false, "weight_decay": 0.1, "updates": 9007199254740992,
                   "clip_norm": 1.0, "clipped_by": "actor", "params": ["a", "b"]}],
    "modules": [{"name": "a", "class": "A", "op": "o", "called_at": "x.py:1", "params": ["w"],
                 "inputs": ["i", "i[1]"], "computed_from": [], "outputs": ["a", "a[1]"],
                 "via": ["AddBackward0"], "computed_via": ["MulBackward0", "SumBackward0"]},
                {"name": "b", "outputs": []}])";
  const Manifest manifest = parse_manifest(manifest_of(tensors, more), "m.json");
  const Manifest again = parse_manifest(manifest_text(manifest), "again.json");
  CHECK(again.tensors[0].key == manifest.tensors[0].key);
  CHECK(again.tensors[0].held_at == manifest.tensors[0].held_at);
  CHECK(again.tensors[0].placements == manifest.tensors[0].placements);
  CHECK(again.tensors[0].scale == 0.1);
  CHECK(again.tensors[0].order == std::uint64_t{17});
  CHECK(again.tensors[0].computed_in == tensor::DType::kBFloat16);
  CHECK(again.tensors[1].mesh == "other");
  CHECK(again.tensors[1].complex);
  CHECK_FALSE(again.tensors[0].complex);
  CHECK(again.tensors[1].computed_in == tensor::DType::kTensorFloat32);
  CHECK(again.run.products.matmul == tensor::DType::kTensorFloat32);
  CHECK(again.run.products.convolution == tensor::DType::kTensorFloat32);
  CHECK(again.tensors[1].placements == manifest.tensors[1].placements);
  CHECK(again.tensors[0].position == std::uint64_t{2});
  CHECK(*again.tensors[0].absent_on == std::vector<std::uint64_t>{1, 4});
  CHECK(again.run.id == "f00d");
  CHECK(again.optimizer[0].clipped_by == "actor");
  REQUIRE(again.run.recorded.has_value());
  CHECK(*again.run.recorded ==
        Recorded{{Kind::kOutput, Kind::kMainGrad}, std::vector<std::string>{"layers.*"}, {0, 7}});
  CHECK(again.run.updates_before == 3);
  CHECK(again.run.rewritten.at(1) == std::set<std::string>{"a", "b"});
  CHECK(again.run.unfinished == std::vector<std::uint64_t>{0, 5});
  CHECK(again.run.model == "größe \"x\"");
  CHECK(again.run.command == "a\nb");
  REQUIRE(again.run.noise.has_value());
  CHECK(again.run.noise->seed == UINT64_MAX);
  CHECK(again.run.noise->epsilon == 1e-7);
  REQUIRE(again.run.plan.has_value());
  CHECK(again.run.plan->digest == std::string(60, '0') + "1a2f");
  CHECK(again.run.plan->modules == std::vector<std::string>{"a", "b.*"});
  CHECK(again.run.extra_json == manifest.run.extra_json);
  CHECK(again.optimizer[0].numbers == manifest.optimizer[0].numbers);
  CHECK(again.optimizer[0].numbers.at("updates") == 9007199254740992.0);
  CHECK(again.optimizer[0].switches == manifest.optimizer[0].switches);
  CHECK(again.optimizer[0].betas == std::vector<double>{0.9, 0.999});
  CHECK(again.modules[0].computed_from == std::vector<std::string>{});
  CHECK(again.modules[0].inputs == std::vector<std::string>{"i", "i[1]"});
  CHECK(again.modules[0].via == std::vector<std::string>{"AddBackward0"});
  CHECK(again.modules[0].computed_via == std::vector<std::string>{"MulBackward0", "SumBackward0"});
  CHECK(again.modules[1].via.empty());
  CHECK(again.modules[1].outputs == std::vector<std::string>{});
  CHECK_FALSE(again.modules[1].computed_from.has_value());
  check_round_trip(manifest);
}

TEST_CASE("defaults of a tensor") {
  const Manifest manifest = parse_manifest(with_member(R"("microbatch": null)"), "m.json");
  const TensorEntry& entry = manifest.tensors.at(0);
  CHECK_FALSE(entry.key.microbatch.has_value());
  CHECK(entry.key.call == 0);
  CHECK(entry.key.copy == 0);
  CHECK(entry.mesh.empty());
  CHECK(entry.scale == 1);
  CHECK(entry.held_at.empty());
  CHECK(entry.placements.empty());
  CHECK_FALSE(entry.computed_in.has_value());
  CHECK_FALSE(entry.position.has_value());
  CHECK(entry.absent_on->empty());
}

TEST_CASE("the text of a manifest has one tensor and one module per line") {
  const std::string text = manifest_text(
      parse_manifest(with_top(R"("modules": [{"name": "first"}, {"name": "second"}])"), "m.json"));
  CHECK(test::contains(text, "\n    {\"name\":\"first\"},\n    {\"name\":\"second\"}\n"));
  CHECK(text.back() == '\n');
}

TEST_CASE("an empty manifest survives being written") {
  Manifest manifest;
  manifest.meshes.emplace("", Mesh{});
  const Manifest again = parse_manifest(manifest_text(manifest), "m.json");
  CHECK(again.tensors.empty());
  CHECK(again.meshes.at("").axes.empty());
  check_round_trip(manifest);
}

}  // namespace
}  // namespace ttrace::trace::manifest_test
