#include "layout/map_rules.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::layout {
namespace {

using test::make_entry;
using trace::Kind;
using Names = std::vector<std::string>;

struct Given {
  std::string name;
  std::optional<std::uint64_t> position = std::nullopt;
  tensor::Shape shape = {2};
};

class Values {
 public:
  Values(const std::vector<Given>& given, bool by_position, Kind kind = Kind::kInput,
         std::optional<std::uint64_t> microbatch = 0)
      : by_position_(by_position) {
    for (const Given& one : given) {
      entries_.push_back(make_entry(one.name, one.shape, kind));
      entries_.back().position = one.position;
      entries_.back().key.microbatch = microbatch;
    }
  }

  Names renamed_to(const Values& reference) const {
    Names names;
    for (const ViewPtr& view :
         renamed_values(views(), by_position_, reference.views(), reference.by_position_)) {
      names.push_back(view->key.name);
    }
    return names;
  }

 private:
  std::vector<ViewPtr> views() const {
    std::vector<ViewPtr> made;
    for (const trace::TensorEntry& entry : entries_) made.push_back(view_of(entry));
    return made;
  }

  std::vector<trace::TensorEntry> entries_;
  bool by_position_;
};

const Values kByPath({{"a"}, {"a[cos]", 1}, {"a[sin]", 2}, {"b"}}, false);
const Values kByPosition({{"a"}, {"a[1]"}, {"a[2]"}, {"b"}}, true);

TEST_CASE("values meet by position where one side names them so") {
  CHECK(kByPosition.renamed_to(kByPath) == Names{"a", "a[cos]", "a[sin]", "b"});
  CHECK(kByPath.renamed_to(kByPosition) == Names{"a", "a[1]", "a[2]", "b"});
  CHECK(kByPath.renamed_to(kByPath) == Names{"a", "a[cos]", "a[sin]", "b"});
  CHECK(kByPosition.renamed_to(kByPosition) == Names{"a", "a[1]", "a[2]", "b"});
}

TEST_CASE("a first tensor that is not the module's name meets that which is") {
  const Values by_path({{"m[logits]", 0}, {"m[loss]", 1}}, false, Kind::kOutput);
  const Values by_position({{"m"}, {"m[1]"}}, true, Kind::kOutput);
  CHECK(by_position.renamed_to(by_path) == Names{"m[logits]", "m[loss]"});
  CHECK(by_path.renamed_to(by_position) == Names{"m", "m[1]"});
}

TEST_CASE("an argument too many shifts nothing, where shapes tell it") {
  const Values with_mask({{"a"}, {"a[mask]", 1, {2, 2}}, {"a[cos]", 2}, {"a[sin]", 3}}, false);
  CHECK(kByPosition.renamed_to(with_mask) == Names{"a", "a[cos]", "a[sin]", "b"});
  CHECK(with_mask.renamed_to(kByPosition) == Names{"a", "a[mask]", "a[1]", "a[2]"});
  const Values old({{"a"}, {"a[1]", std::nullopt, {2, 2}}, {"a[2]"}, {"a[3]"}}, true);
  const Values now({{"a"}, {"a[cos]", 1}, {"a[sin]", 2}}, false);
  CHECK(old.renamed_to(now) == Names{"a", "a[1]", "a[cos]", "a[sin]"});
  CHECK(now.renamed_to(old) == Names{"a", "a[2]", "a[3]"});
}

TEST_CASE("what is left does not take another value's name") {
  // The path of an item of a tuple looks like a position.
  const Values tuple({{"m"}, {"m[2]", 1}}, false, Kind::kOutput);
  const Values old({{"m"}, {"m[1]"}, {"m[2]", std::nullopt, {3}}}, true, Kind::kOutput);
  CHECK(old.renamed_to(tuple) == Names{"m", "m[2]", "m[position 2]"});
}

TEST_CASE("the reference's micro-batches may have run at once") {
  const Values together({{"a", std::nullopt, {8}}, {"a[cos]", 1, {8}}}, false, Kind::kInput,
                        std::nullopt);
  CHECK(Values({{"a"}, {"a[1]"}}, true).renamed_to(together) == Names{"a", "a[cos]"});
}

TEST_CASE("parameters and modules that the reference lacks keep their names") {
  const Values parameters({{"w[1]"}}, true, Kind::kParam);
  CHECK(parameters.renamed_to(Values({{"w[x]", 1}}, false, Kind::kParam)) == Names{"w[1]"});
  CHECK(Values({{"c[1]"}}, true).renamed_to(kByPath) == Names{"c[1]"});
  CHECK(Values({{"a[1]"}}, true, Kind::kOutput).renamed_to(kByPath) == Names{"a[1]"});
}

}  // namespace
}  // namespace ttrace::layout
