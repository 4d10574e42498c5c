// Meshes, shapes, placements and scales that contradict themselves.
#include "base/refusal.h"
#include "trace/manifest.h"
#include "trace/manifest_texts.h"

namespace ttrace::trace::manifest_layout_refusals_test {
namespace {

using test::manifest_of;
using test::tensor_text;
using test::with_member;
using test::with_mesh;

void refuse(const std::string& text, const std::string& pointer, const std::string& reason) {
  CAPTURE(text);
  test::check_refused([&] { parse_manifest(text, "m.json"); },
                      {base::concat("m.json: ", pointer, ": "), reason});
}

TEST_CASE("axes of a mesh must have a name of their own and a size") {
  refuse(with_mesh(R"({"axes": [{"name": "tp"}]})"), "/meshes//axes/0", "\"size\" is missing");
  refuse(with_mesh(R"({"axes": [{"size": 2}]})"), "/meshes//axes/0", "\"name\" is missing");
  refuse(with_mesh(R"({"axes": [{"name": "tp", "size": 0}]})"), "/meshes//axes/0", "size 0");
  refuse(with_mesh(R"({"axes": [{"name": "tp", "size": 2}, {"name": "tp", "size": 2}]})"),
         "/meshes//axes/1", "twice");
  refuse(with_mesh(R"({"axes": {}})"), "/meshes//axes", "expected a list");
}

TEST_CASE("a mesh of more ranks than any machine has is refused") {
  refuse(with_mesh(R"({"axes": [{"name": "a", "size": 16777217}]})"), "/meshes//axes/0",
         "more than 1048576");
  refuse(with_mesh(R"({"axes": [{"name": "a", "size": 4096}, {"name": "b", "size": 8192}]})"),
         "/meshes//axes/1", "more than 1048576");
  refuse(with_mesh(
             R"({"axes": [{"name": "a", "size": 2}, {"name": "b", "size": 9223372036854775808}]})"),
         "/meshes//axes/1", "more than 1048576");
  CHECK_NOTHROW(parse_manifest(with_mesh(R"({"axes": [{"name": "a", "size": 1048576}]})"), "m"));
}

TEST_CASE("a mesh of more axes than any machine has is refused at once") {
  const auto mesh = [](std::size_t axes) {
    std::string text;
    for (std::size_t i = 0; i < axes; ++i) {
      text +=
          (i == 0 ? "{\"name\": \"a" : ", {\"name\": \"a") + std::to_string(i) + "\", \"size\": 1}";
    }
    return with_mesh("{\"axes\": [" + text + "]}");
  };
  CHECK_NOTHROW(parse_manifest(mesh(64), "m"));
  refuse(mesh(65), "/meshes//axes", "65 axes, and at most 64 are read");
  refuse(mesh(100'000), "/meshes//axes", "100000 axes, and at most 64 are read");
}

TEST_CASE("a list of ranks has one rank for each coordinate") {
  const auto ranks = [](const std::string& list) {
    return with_mesh(R"({"axes": [{"name": "tp", "size": 3}], "ranks": )" + list + "}");
  };
  CHECK(parse_manifest(ranks("[7, 0, 5]"), "m").meshes.at("").ranks ==
        std::vector<std::uint64_t>{7, 0, 5});
  CHECK(parse_manifest(ranks("\"row-major\""), "m").meshes.at("").ranks.empty());
  refuse(ranks("[0, 1]"), "/meshes//ranks", "3 coordinates, the list has 2 ranks");
  refuse(ranks("[]"), "/meshes//ranks", "3 coordinates, the list has 0 ranks");
  refuse(ranks("[0, 1, 2, 3]"), "/meshes//ranks", "3 coordinates, the list has 4 ranks");
  refuse(ranks("[0, 2, 0]"), "/meshes//ranks", "rank 0 stands at two coordinates");
  refuse(ranks("[0, 1, 1048576]"), "/meshes//ranks", "rank 1048576 is beyond");
  refuse(ranks("\"column-major\""), "/meshes//ranks", "row-major");
  refuse(ranks("[0, 1, -2]"), "/meshes//ranks/2", "whole number");
  refuse(ranks("[0, 1, 2.0]"), "/meshes//ranks/2", "whole number");
}

TEST_CASE("a tensor's mesh must exist") {
  refuse(with_member(R"("mesh": "expert")"), "/tensors/0/mesh", "no mesh \"expert\"");
  CHECK(parse_manifest(with_member(R"("mesh": "other")"), "m").tensors[0].mesh == "other");
}

TEST_CASE("placements and held_at need axes of the tensor's own mesh") {
  refuse(with_member(R"("placements": {"ep": "replicate"})"), "/tensors/0/placements/ep",
         "no axis \"ep\"");
  refuse(with_member(R"("held_at": {"ep": [0]})"), "/tensors/0/held_at/ep", "no axis \"ep\"");
  refuse(with_member(R"("mesh": "other", "placements": {"tp": "replicate"})"),
         "/tensors/0/placements/tp", "no axis \"tp\"");
}

TEST_CASE("unknown placements are refused") {
  refuse(with_member(R"("placements": {"tp": "replicated"})"), "/tensors/0/placements/tp",
         "unknown placement \"replicated\"");
  refuse(with_member(R"("placements": {"tp": {}})"), "/tensors/0/placements/tp",
         "unknown placement");
  refuse(with_member(R"("placements": {"tp": {"split": 0}})"), "/tensors/0/placements/tp",
         "unknown placement");
  refuse(with_member(R"("placements": {"tp": {"shard": 0, "partial": "sum"}})"),
         "/tensors/0/placements/tp/partial", "unknown key");
  refuse(with_member(R"("placements": {"tp": {"partial": "sum", "only": 0}})"),
         "/tensors/0/placements/tp/only", "unknown key");
  refuse(with_member(R"("placements": {"tp": {"partial": "min"}})"),
         "/tensors/0/placements/tp/partial", "unknown reduction \"min\"");
  refuse(with_member(R"("placements": {"tp": 0})"), "/tensors/0/placements/tp",
         "expected an object");
  refuse(with_member(R"("placements": ["replicate"])"), "/tensors/0/placements",
         "expected an object");
}

TEST_CASE("a shard needs a dimension that the tensor has") {
  refuse(with_member(R"("placements": {"tp": {"shard": 2}})"), "/tensors/0/placements/tp",
         "shard of dimension 2, but the tensor's shape is [6, 4]");
  refuse(with_member(R"("placements": {"tp": {"shard": -1}})"), "/tensors/0/placements/tp/shard",
         "whole number");
  refuse(manifest_of(
             tensor_text(R"("dtype": "float32", "shape": [], "placements": {"tp": {"shard": 0}})")),
         "/tensors/0/placements/tp", "shape is []");
  refuse(with_member(R"("placements": {"tp": {"shard": 0, "sizes": [1.5, 4.5]}})"),
         "/tensors/0/placements/tp/sizes/0", "whole number");
}

TEST_CASE("held_at lists coordinates of the axis in order") {
  refuse(with_member(R"("held_at": {"dp": [3]})"), "/tensors/0/held_at/dp",
         "coordinate 3, but the axis has size 3");
  refuse(with_member(R"("held_at": {"dp": [2, 1]})"), "/tensors/0/held_at/dp", "must ascend");
  refuse(with_member(R"("held_at": {"dp": [1, 1]})"), "/tensors/0/held_at/dp", "must ascend");
  refuse(with_member(R"("held_at": {"dp": []})"), "/tensors/0/held_at/dp", "no coordinate");
  refuse(with_member(R"("held_at": {"dp": 1})"), "/tensors/0/held_at/dp", "expected a list");
}

TEST_CASE("only stands alone and within its axis") {
  refuse(with_member(R"("placements": {"tp": {"only": 2}})"), "/tensors/0/placements/tp",
         "only 2, but the axis has size 2");
  refuse(with_member(R"("held_at": {"tp": [0]}, "placements": {"tp": {"only": 0}})"),
         "/tensors/0/placements/tp", "both restrict");
  CHECK_NOTHROW(parse_manifest(
      with_member(R"("held_at": {"dp": [0]}, "placements": {"tp": {"only": 1}})"), "m"));
}

TEST_CASE("integers have sums and maxima, no means, and no scale") {
  const auto integers = [](const std::string& more) {
    return manifest_of(tensor_text(R"("dtype": "int64", "shape": [4], )" + more));
  };
  refuse(integers(R"("placements": {"tp": {"partial": "mean"}})"), "/tensors/0/placements/tp",
         "partial mean of int64");
  for (const char* const word : {"sum", "max"}) {
    const std::string placed =
        base::concat(R"("placements": {"tp": {"partial": ")", word, R"("}})");
    CHECK_NOTHROW(parse_manifest(integers(placed), "m"));
    refuse(manifest_of(tensor_text(R"("dtype": "bool", "shape": [4], )" + placed)),
           "/tensors/0/placements/tp", "of bool");
  }
  refuse(integers(R"("scale": 2)"), "/tensors/0/scale", "a scale on int64");
  CHECK_NOTHROW(parse_manifest(integers(R"("scale": 1)"), "m"));
}

TEST_CASE("a scale is a finite number") {
  refuse(with_member(R"("scale": "2")"), "/tensors/0/scale", "expected a number");
  refuse(with_member(R"("scale": null)"), "/tensors/0/scale", "expected a number");
  // No JSON number is infinite: the parser says so, with the place in the text.
  const std::string text = with_member(R"("scale": 1e999)");
  test::check_refused([&] { parse_manifest(text, "m.json"); }, {"m.json", "1e999"});
}

TEST_CASE("counts are whole numbers from 0 on") {
  for (const char* member : {"microbatch", "call", "copy", "order"}) {
    for (const char* number : {"-1", "1.0", "1e2", "\"1\"", "true", "18446744073709551616"}) {
      refuse(with_member(base::concat("\"", member, "\": ", number)),
             base::concat("/tensors/0/", member), "whole number");
    }
  }
  refuse(manifest_of(R"({"name": "w", "kind": "param", "step": -1, "dtype": "bool", "shape": []})"),
         "/tensors/0/step", "whole number");
  refuse(manifest_of(tensor_text(R"("dtype": "bool", "shape": [2, -1])")), "/tensors/0/shape/1",
         "whole number");
  refuse(manifest_of(tensor_text(R"("dtype": "bool", "shape": [2.5])")), "/tensors/0/shape/0",
         "whole number");
  refuse(with_mesh(R"({"axes": [{"name": "tp", "size": 2.0}]})"), "/meshes//axes/0/size",
         "whole number");
}

TEST_CASE("a shape whose bytes overflow is refused and so are too many dimensions") {
  refuse(manifest_of(tensor_text(R"("dtype": "float64", "shape": [4294967296, 4294967296])")),
         "/tensors/0/shape", "overflows 64 bits");
  refuse(manifest_of(tensor_text(R"("dtype": "float64", "shape": [2305843009213693952])")),
         "/tensors/0/shape", "overflows 64 bits");
  std::string ones = "1";
  for (int i = 1; i < 33; ++i) ones += ", 1";
  refuse(manifest_of(tensor_text(R"("dtype": "bool", "shape": [)" + ones + "]")),
         "/tensors/0/shape", "33 dimensions");
  CHECK_NOTHROW(parse_manifest(
      manifest_of(tensor_text(R"("dtype": "float64", "shape": [4294967296, 4294967296, 0])")),
      "m"));
}

}  // namespace
}  // namespace ttrace::trace::manifest_layout_refusals_test
