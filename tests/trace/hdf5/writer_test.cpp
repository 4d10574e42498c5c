#include "trace/hdf5/writer.h"

#include "base/refusal.h"
#include "support/temp_dir.h"
#include "trace/hdf5/trace_files.h"
#include "trace/open/open_trace.h"

namespace ttrace::trace::hdf5::writer_test {
namespace {

using tensor::DType;
using test::check_refused;
using test::TempDir;
using Names = std::vector<std::string>;

Manifest bare_manifest(const std::string& model = "") {
  Manifest manifest;
  manifest.meshes.emplace("", Mesh{});
  manifest.run.model = model;
  return manifest;
}

TEST_CASE("nothing has the file's name before it is finished") {
  const TempDir dir;
  const auto sink = create_file(dir.file("t.h5"), base::Existing::kReplaced);
  sink->create("/x", DType::kInt8, {1});
  CHECK_FALSE(std::filesystem::exists(dir.file("t.h5")));
  sink->finish(bare_manifest());
  CHECK(dir.entries() == Names{"t.h5"});
}

TEST_CASE("an abandoned sink leaves nothing behind") {
  const TempDir dir;
  {
    const auto sink = create_file(dir.file("t.h5"), base::Existing::kReplaced);
    sink->create("/x", DType::kInt8, {1});
    CHECK_FALSE(dir.entries().empty());
  }
  CHECK(dir.entries().empty());
}

TEST_CASE("a finished file replaces an older one and an abandoned one does not") {
  const TempDir dir;
  const std::string path = dir.file("t.h5");
  create_file(path, base::Existing::kReplaced)->finish(bare_manifest("old"));
  create_file(path, base::Existing::kReplaced)->create("/x", DType::kInt8, {1});
  CHECK(open_trace(path)->manifest().run.model == "old");
  create_file(path, base::Existing::kReplaced)->finish(bare_manifest("new"));
  CHECK(open_trace(path)->manifest().run.model == "new");
  CHECK(dir.entries() == Names{"t.h5"});
}

TEST_CASE("a sink where no file can be made is refused with its path") {
  const TempDir dir;
  const std::string absent = dir.file("no/such/dir/t.h5");
  check_refused([&] { create_file(absent, base::Existing::kReplaced); },
                {absent, "cannot be created"});
  test::write_file(dir.file("plain"), "text");
  const std::string below = dir.file("plain/t.h5");
  check_refused([&] { create_file(below, base::Existing::kReplaced); },
                {below, "cannot be created"});
}

TEST_CASE("a file that cannot be put in place leaves nothing behind") {
  const TempDir dir;
  const std::string path = dir.file("taken");
  auto sink = create_file(path, base::Existing::kReplaced);
  std::filesystem::create_directories(dir.file("taken/inner"));
  check_refused([&] { sink->finish(bare_manifest()); }, {path, "it is a directory"});
  sink.reset();
  CHECK(dir.entries() == Names{"taken"});
}

TEST_CASE("two sinks for one file at a time have nothing in common") {
  const TempDir dir;
  const std::string path = dir.file("t.h5");
  const auto first = create_file(path, base::Existing::kReplaced);
  const auto second = create_file(path, base::Existing::kReplaced);
  const auto third = create_file(path, base::Existing::kKept);
  first->finish(bare_manifest("first"));
  CHECK(open_trace(path)->manifest().run.model == "first");
  second->finish(bare_manifest("second"));
  CHECK(open_trace(path)->manifest().run.model == "second");
  check_refused([&] { third->finish(bare_manifest("third")); }, {path, "is there already"});
  CHECK(open_trace(path)->manifest().run.model == "second");
}

TEST_CASE("a sink refuses the same dataset twice and one never created") {
  const TempDir dir;
  const auto sink = create_file(dir.file("t.h5"), base::Existing::kReplaced);
  sink->create("/g/x", DType::kInt8, {1});
  check_refused([&] { sink->create("/g/x", DType::kInt8, {1}); }, {"/g/x cannot be created"});
  const std::byte byte{};
  check_refused(
      [&] {
        sink->write("/g/y", tensor::whole({1}), {&byte, 1});
      },
      {"/g/y was never created"});
  // A dataset cannot also be a group.
  check_refused([&] { sink->create("/g/x/z", DType::kInt8, {1}); }, {"/g/x/z cannot be created"});
}

TEST_CASE("a rank's file says whose it is") {
  const TempDir dir;
  for (const std::uint64_t rank : {0U, 1U}) {
    create_file(dir.file(rank_file_name(rank)), base::Existing::kKept, rank)
        ->finish(bare_manifest());
  }
  test::write_file(dir.file("manifest.json"),
                   R"({"schema": "ttrace.manifest/2", "tensors": [],
                       "meshes": {"": {"axes": [{"name": "tp", "size": 2}]}}})");
  const auto source = open_trace(dir.path());
  CHECK_FALSE(source->rank_problem(0).has_value());
  CHECK_FALSE(source->rank_problem(1).has_value());
}

}  // namespace
}  // namespace ttrace::trace::hdf5::writer_test
