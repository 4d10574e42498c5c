#include "audit/step_coverage.h"
#include "support/catch.h"

namespace ttrace::audit::must_be_derived_test {
namespace {

using trace::Kind;

specification::Specification of_inputs(const std::vector<std::string>& modules) {
  specification::Specification made;
  for (const std::string& module : modules) {
    specification::SpecifiedTensor tensor;
    tensor.kind = Kind::kInput;
    tensor.name = module;
    made.tensors.push_back(tensor);
  }
  return made;
}

bool must(const std::vector<std::string>& modules, const std::string& name,
          Kind kind = Kind::kInput) {
  trace::TensorKey key;
  key.kind = kind;
  key.name = name;
  return must_be_derived(of_inputs(modules), key);
}

TEST_CASE("inputs of a module are given where the script calls it and no module around it") {
  CHECK_FALSE(must({"actor", "actor.0", "critic"}, "actor"));
  CHECK_FALSE(must({"actor", "actor.0", "critic"}, "critic"));
  CHECK(must({"actor", "actor.0", "critic"}, "actor.0"));
  CHECK(must({"actor", "actor.0"}, "actor.0[1]"));
  // A name that begins alike is no module around it.
  CHECK_FALSE(must({"act", "actor"}, "actor"));
}

TEST_CASE("inputs of modules inside a model that is called are computed") {
  CHECK(must({"(model)", "actor"}, "actor"));
  CHECK_FALSE(must({"(model)", "actor"}, "(model)"));
  CHECK(must({"actor"}, "actor", Kind::kOutput));
}

}  // namespace
}  // namespace ttrace::audit::must_be_derived_test
