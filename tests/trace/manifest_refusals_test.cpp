// What a reader refuses, member by member: the message names the JSON pointer and the reason.
#include "base/refusal.h"
#include "trace/manifest.h"
#include "trace/manifest_texts.h"

namespace ttrace::trace::manifest_refusals_test {
namespace {

using test::manifest_of;
using test::tensor_text;
using test::with_member;
using test::with_mesh;
using test::with_top;

void refuse(const std::string& text, const std::string& pointer, const std::string& reason) {
  CAPTURE(text);
  test::check_refused([&] { parse_manifest(text, "m.json"); },
                      {base::concat("m.json: ", pointer, ": "), reason});
}

TEST_CASE("the manifests that the refusals start from are accepted") {
  CHECK(parse_manifest(with_member(R"("scale": 1)"), "m.json").tensors.size() == 1);
  CHECK(parse_manifest(with_mesh(R"({"axes": []})"), "m.json").meshes.size() == 1);
  CHECK(parse_manifest(with_top(R"("modules": [])"), "m.json").meshes.size() == 2);
}

TEST_CASE("a manifest of another version is refused before anything else") {
  refuse(R"({"schema": "ttrace.manifest/3", "news": 1})", "/schema", "\"ttrace.manifest/3\"");
  refuse(R"({"schema": "ttrace.manifest/3"})", "/schema", "; record again");
  refuse(R"({"schema": "ttrace.manifest/1"})", "/schema", "of a version that was never released");
  refuse(R"({"schema": 1})", "/schema", "expected a string");
  refuse(R"({})", "the top level", "\"schema\" is missing");
  refuse("[]", "the top level", "expected an object");
}

TEST_CASE("what was recorded is said in known words") {
  const auto run = [](const std::string& members) {
    return with_top(R"("run": {)" + members + "}");
  };
  refuse(run(R"("recorded": {"steps": [0]})"), "/run/recorded", "\"kinds\" is missing");
  refuse(run(R"("recorded": {"kinds": ["outputs"], "steps": [0]})"), "/run/recorded/kinds/0",
         "unknown kind \"outputs\"");
  refuse(run(R"("recorded": {"kinds": [], "steps": [1, 1]})"), "/run/recorded/steps", "ascending");
  refuse(run(R"("recorded": {"kinds": [], "modules": [""], "steps": []})"),
         "/run/recorded/modules/0", "empty");
  refuse(run(R"("products": {"matmul": "bfloat16"})"), "/run/products/matmul", "\"tf32\"");
  refuse(run(R"("products": {"matmul": "int7"})"), "/run/products/matmul", "unknown dtype");
  refuse(run(R"("products": {"attention": "tf32"})"), "/run/products/attention", "unknown key");
  refuse(manifest_of(tensor_text(R"("dtype": "tf32", "shape": [2])")), "/tensors/0/dtype",
         "unknown dtype \"tf32\"");
  refuse(run(R"("rewritten": [{"step": 1}, {"step": 1}])"), "/run/rewritten/1/step", "earlier");
  refuse(run(R"("unfinished": [3, 2])"), "/run/unfinished", "2 stands after 3");
  refuse(run(R"("incomplete": [{"tensors": "*", "ranks": [1, 0], "reason": ""}])"),
         "/run/incomplete/0/ranks", "0 stands after 1");
  refuse(run(R"("incomplete": [{"tensors": "*", "ranks": []}])"), "/run/incomplete/0", "reason");
  refuse(with_member(R"("absent_on": [1, 0])"), "/tensors/0/absent_on", "0 stands after 1");
}

TEST_CASE("unknown keys are refused wherever they stand") {
  refuse(with_top(R"("tensor": [])"), "/tensor", "unknown key");
  refuse(with_top(R"("run": {"modle": ""})"), "/run/modle", "unknown key");
  refuse(with_top(R"("run": {"noise": {"seed": 1, "epsilon": 1, "at": "e", "x": 1}})"),
         "/run/noise/x", "unknown key");
  refuse(with_top(R"("run": {"plan": {"digest": "", "modules": [], "seed": 1}})"), "/run/plan/seed",
         "unknown key");
  refuse(with_mesh(R"({"axes": [], "axis": 1})"), "/meshes//axis", "unknown key");
  refuse(with_mesh(R"({"axes": [{"name": "tp", "size": 1, "x": 1}]})"), "/meshes//axes/0/x",
         "unknown key");
  refuse(with_member(R"("strides": [])"), "/tensors/0/strides", "unknown key");
  refuse(with_top(R"("optimizer": [{"step": 0, "type": "sgd", "rate": 1}])"), "/optimizer/0/rate",
         "unknown key");
  refuse(with_top(R"("modules": [{"name": "a", "output": []}])"), "/modules/0/output",
         "unknown key");
}

TEST_CASE("required members of a manifest must be there") {
  refuse(R"({"schema": "ttrace.manifest/2", "tensors": []})", "the top level",
         "\"meshes\" is missing");
  refuse(R"({"schema": "ttrace.manifest/2", "meshes": {"": {"axes": []}}})", "the top level",
         "\"tensors\" is missing");
  refuse(R"({"schema": "ttrace.manifest/2", "meshes": {"a": {"axes": []}}, "tensors": []})",
         "/meshes", "default mesh \"\" is missing");
  refuse(with_mesh("{}"), "/meshes/", "\"axes\" is missing");
  refuse(manifest_of(R"({"kind": "param", "step": 0, "dtype": "bool", "shape": []})"), "/tensors/0",
         "\"name\" is missing");
  refuse(manifest_of(R"({"name": "w", "step": 0, "dtype": "bool", "shape": []})"), "/tensors/0",
         "\"kind\" is missing");
  refuse(manifest_of(R"({"name": "w", "kind": "param", "dtype": "bool", "shape": []})"),
         "/tensors/0", "\"step\" is missing");
  refuse(manifest_of(tensor_text(R"("shape": [])")), "/tensors/0", "\"dtype\" is missing");
  refuse(manifest_of(tensor_text(R"("dtype": "bool")")), "/tensors/0", "\"shape\" is missing");
  refuse(with_top(R"("run": {"noise": {"seed": 1, "epsilon": 1}})"), "/run/noise",
         "\"at\" is missing");
  refuse(with_top(R"("run": {"plan": {"modules": []}})"), "/run/plan", "\"digest\" is missing");
  refuse(with_top(R"("optimizer": [{"step": 0}])"), "/optimizer/0", "\"type\" is missing");
  refuse(with_top(R"("modules": [{}])"), "/modules/0", "\"name\" is missing");
}

TEST_CASE("unknown words for kinds and dtypes are refused") {
  refuse(manifest_of(R"({"name": "w", "kind": "weight", "step": 0, "dtype": "bool", "shape": []})"),
         "/tensors/0/kind", "unknown kind \"weight\"");
  refuse(manifest_of(tensor_text(R"("dtype": "float31", "shape": [])")), "/tensors/0/dtype",
         "unknown dtype \"float31\"");
  refuse(with_member(R"("computed_in": "fp31")"), "/tensors/0/computed_in",
         "unknown dtype \"fp31\"");
}

TEST_CASE("complex numbers without their two parts are refused") {
  const auto refuse_complex = [](const std::string& members) {
    refuse(manifest_of(tensor_text(members + R"(, "complex": true)")), "/tensors/0/complex",
           "complex numbers are floating-point numbers whose last dimension is 2");
  };
  refuse_complex(R"("dtype": "float32", "shape": [])");
  refuse_complex(R"("dtype": "float32", "shape": [2, 3])");
  refuse_complex(R"("dtype": "int32", "shape": [3, 2])");
}

TEST_CASE("the same tensor key twice is refused and the first is named") {
  const std::string one = tensor_text(R"("dtype": "float32", "shape": [2])");
  refuse(manifest_of(one + "," + one), "/tensors/1", "the same key as /tensors/0: w · param");
  // Defaults written out make no other key.
  const std::string spelled =
      tensor_text(R"("microbatch": null, "call": 0, "copy": 0, "dtype": "float16", "shape": [])");
  refuse(manifest_of(one + "," + spelled), "/tensors/1", "the same key as /tensors/0");
  const std::string other = tensor_text(R"("microbatch": 0, "dtype": "float32", "shape": [2])");
  CHECK(parse_manifest(manifest_of(one + "," + other), "m.json").tensors.size() == 2);
}

TEST_CASE("names that leave their place are refused everywhere") {
  const auto named = [](const std::string& name) {
    return manifest_of(R"({"name": ")" + name +
                       R"(", "kind": "param", "step": 0, "dtype": "bool", "shape": []})");
  };
  refuse(named(""), "/tensors/0/name", "empty");
  refuse(named("a/b"), "/tensors/0/name", "\"/\"");
  refuse(named(".."), "/tensors/0/name", "leave the trace");
  refuse(named("a\\u0007b"), "/tensors/0/name", "control character");
  refuse(named("a\\u009bb"), "/tensors/0/name", "control character");
  refuse(named(std::string(513, 'x')), "/tensors/0/name", "longer than 512");
  refuse(with_mesh(R"({"axes": [{"name": "a/b", "size": 1}]})"), "/meshes//axes/0", "\"/\"");
  refuse(with_top(R"("modules": [{"name": "a\nb"}])"), "/modules/0/name", "control character");
  for (const char* list : {"params", "inputs", "computed_from", "outputs", "via", "computed_via"}) {
    refuse(with_top(base::concat(R"("modules": [{"name": "a", ")", list, R"(": ["x", ".."]}])")),
           base::concat("/modules/0/", list, "/1"), "leave the trace");
  }
  refuse(with_top(R"("optimizer": [{"step": 0, "type": "sgd", "params": ["x/y"]}])"),
         "/optimizer/0/params/0", "\"/\"");
}

TEST_CASE("modules and their lists are checked") {
  refuse(with_top(R"("modules": [{"name": "a"}, {"name": "b"}, {"name": "a"}])"), "/modules/2",
         "\"a\" stands twice");
  refuse(with_top(R"("modules": {})"), "/modules", "expected a list");
  refuse(with_top(R"("modules": [{"name": "a", "inputs": "b"}])"), "/modules/0/inputs",
         "expected a list");
  refuse(with_top(R"("modules": [{"name": "a", "class": 1}])"), "/modules/0/class",
         "expected a string");
}

TEST_CASE("what a run says of itself has the right types") {
  refuse(with_top(R"("run": [])"), "/run", "expected an object");
  refuse(with_top(R"("run": {"model": 3})"), "/run/model", "expected a string");
  refuse(with_top(R"("run": {"extra": []})"), "/run/extra", "expected an object");
  for (const std::string& digest : {std::string(63, 'a'), std::string(64, 'A')}) {
    refuse(with_top(base::concat(R"("run": {"plan": {"modules": [], "digest": ")", digest, "\"}}")),
           "/run/plan/digest", "64 hexadecimal digits");
  }
  refuse(with_top(R"("run": {"noise": {"seed": -1, "epsilon": 1, "at": "e"}})"), "/run/noise/seed",
         "whole number");
  refuse(with_top(R"("run": {"noise": {"seed": 1, "epsilon": "1", "at": "e"}})"),
         "/run/noise/epsilon", "expected a number");
}

TEST_CASE("optimizer groups are checked") {
  refuse(with_top(R"("optimizer": [{"step": 0, "type": "sgd", "lr": "1"}])"), "/optimizer/0/lr",
         "expected a number");
  refuse(with_top(R"("optimizer": [{"step": 0, "type": "sgd", "clipped_by": "x/y"}])"),
         "/optimizer/0/clipped_by", "\"/\"");
  refuse(with_top(R"("optimizer": [{"step": 0, "type": "sgd", "nesterov": 1}])"),
         "/optimizer/0/nesterov", "true or false");
  refuse(with_top(R"("optimizer": [{"step": 0, "type": "adam", "betas": [0.9]}])"),
         "/optimizer/0/betas", "two numbers");
  const auto updates = [](const std::string& number) {
    return with_top(R"("optimizer": [{"step": 0, "type": "adam", "updates": )" + number + "}]");
  };
  refuse(updates("-1"), "/optimizer/0/updates", "whole number");
  refuse(updates("1.5"), "/optimizer/0/updates", "whole number");
  refuse(updates("1e300"), "/optimizer/0/updates", "whole number");
  refuse(updates("9007199254740993"), "/optimizer/0/updates", "at most 2^53");
}

}  // namespace
}  // namespace ttrace::trace::manifest_refusals_test
