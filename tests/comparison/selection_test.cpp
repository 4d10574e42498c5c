#include "comparison/selection.h"

#include "base/error.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::comparison::selection_test {
namespace {

using test::make_key;
using trace::Kind;

const std::vector<trace::TensorKey> kKeys{
    make_key("layers.0.attn", Kind::kOutput),      make_key("layers.0.mlp", Kind::kOutput),
    make_key("layers.0.mlp.weight", Kind::kParam), make_key("layers.1.mlp", Kind::kOutput, 1),
    make_key("router[1]", Kind::kGradOutput),
};

std::vector<std::string> chosen(const Selection& selection) {
  std::vector<std::string> names;
  for (const trace::TensorKey& key : kKeys) {
    if (selection.selects(key)) names.push_back(key.name);
  }
  return names;
}

std::string refusal(const Selection& selection) {
  try {
    require_matches(selection, kKeys);
  } catch (const base::Error& error) {
    return error.kind() == base::ErrorKind::kUsage ? error.what() : "not a usage error";
  }
  return "";
}

using Names = std::vector<std::string>;

TEST_CASE("without flags everything is selected") {
  CHECK(chosen({}).size() == kKeys.size());
  CHECK(refusal({}).empty());
}

TEST_CASE("patterns, kinds and steps all have to agree") {
  CHECK(chosen({{"layers.0.*"}, {}, {}, {}}).size() == 3);
  CHECK(chosen({{"layers.0.*", "router*"}, {}, {}, {}}).size() == 4);
  CHECK(chosen({{"layers.0.*"}, {"*.mlp*"}, {}, {}}) == Names{"layers.0.attn"});
  CHECK(chosen({{}, {}, {Kind::kParam, Kind::kGradOutput}, {}}) ==
        Names{"layers.0.mlp.weight", "router[1]"});
  CHECK(chosen({{}, {}, {}, {1}}) == Names{"layers.1.mlp"});
  CHECK(chosen({{"layers*"}, {}, {Kind::kOutput}, {0}}) == Names{"layers.0.attn", "layers.0.mlp"});
}

TEST_CASE("rules that skip leave out what they are the first for") {
  judge::PolicyRule skips{{"layers.*"}, {Kind::kOutput}, {}, {}, {}, false, "known", ""};
  judge::PolicyRule allows{{"layers.1*"}, {}, 8, {}, {}, false, "", ""};
  Selection selection;
  selection.rules = {skips};
  CHECK(chosen(selection) == Names{"layers.0.mlp.weight", "router[1]"});
  CHECK_FALSE(selection.selects_all());
  selection.rules = {allows, skips};
  CHECK(chosen(selection) == Names{"layers.0.mlp.weight", "layers.1.mlp", "router[1]"});
  selection.rules = {allows};
  CHECK(chosen(selection).size() == kKeys.size());
  CHECK(selection.selects_all());
}

TEST_CASE("brackets in a pattern are brackets in the name") {
  CHECK(chosen({{"router[1]"}, {}, {}, {}}) == Names{"router[1]"});
}

TEST_CASE("a pattern that matches nothing is refused with the nearest names") {
  CHECK(refusal({{"layer.0.atn"}, {}, {}, {}})
            .find("--only layer.0.atn: no tensor has such a name; the nearest names are "
                  "layers.0.attn") == 0);
  CHECK(refusal({{}, {"nobody"}, {}, {}}).find("--skip nobody: no tensor has such a name") == 0);
  CHECK(refusal({{"layers*", "nobody"}, {}, {}, {}}).find("--only nobody") == 0);
  CHECK(refusal({{"layers*"}, {"*.mlp"}, {}, {}}).empty());
}

TEST_CASE("a pattern with control characters does not reach the terminal") {
  CHECK(refusal({{"a\x1b[31m"}, {}, {}, {}}).find('\x1b') == std::string::npos);
}

TEST_CASE("a kind or step that nothing has is refused") {
  CHECK(refusal({{}, {}, {Kind::kLoss}, {}}) == "--kind loss: no tensor is of this kind");
  CHECK(refusal({{}, {}, {}, {7}}) == "--step 7: no tensor is of this step");
}

TEST_CASE("flags that each match something but together nothing are refused") {
  CHECK(refusal({{"layers.1.mlp"}, {}, {}, {0}}) == "the selection flags together leave no tensor");
  CHECK(refusal({{}, {"*"}, {}, {}}) == "the selection flags together leave no tensor");
}

TEST_CASE("without flags an empty trace is no usage error") {
  CHECK_NOTHROW(require_matches({}, {}));
}

}  // namespace
}  // namespace ttrace::comparison::selection_test
