// The manifest inside a file.
#include "base/refusal.h"
#include "support/temp_dir.h"
#include "trace/hdf5/odd_file.h"
#include "trace/hdf5/trace_files.h"
#include "trace/open/open_trace.h"

namespace ttrace::trace::hdf5::single_file_test {
namespace {

using test::check_refused;
using test::kBareManifest;
using test::OddFile;
using test::TempDir;

void refuse(const std::string& path, std::initializer_list<std::string_view> parts) {
  check_refused([&] { open_trace(path); }, parts);
}

TEST_CASE("an embedded manifest may be of fixed or of variable length") {
  const TempDir dir;
  OddFile(dir.file("fixed.h5")).manifest(kBareManifest);
  CHECK(open_trace(dir.file("fixed.h5"))->manifest().tensors.empty());
  {
    // What h5py writes for a str.
    const OddFile odd(dir.file("variable.h5"));
    odd.dataset("/manifest", test::text_type(H5T_VARIABLE).get(), test::scalar_space(),
                test::creation_list(), &kBareManifest);
  }
  CHECK(open_trace(dir.file("variable.h5"))->manifest().tensors.empty());
}

TEST_CASE("a file without a manifest is not a trace") {
  const TempDir dir;
  OddFile(dir.file("t.h5")).four_floats("/x");
  refuse(dir.file("t.h5"), {dir.file("t.h5"), "/manifest", "no such dataset"});
}

TEST_CASE("an embedded manifest must be one string") {
  const TempDir dir;
  OddFile(dir.file("floats.h5")).four_floats("/manifest");
  refuse(dir.file("floats.h5"), {"/manifest", "not a single string"});
  {
    const OddFile odd(dir.file("two.h5"));
    odd.dataset("/manifest", test::text_type(2).get(), test::simple_space({2}),
                test::creation_list(), "{}{}");
  }
  refuse(dir.file("two.h5"), {"/manifest", "not a single string"});
  OddFile(dir.file("group.h5")).four_floats("/manifest/x");
  refuse(dir.file("group.h5"), {"/manifest", "not a dataset"});
}

TEST_CASE("a manifest that claims more than the file holds is refused unread") {
  const TempDir dir;
  {
    // Gigabytes of text that were never written cost no space in the file.
    const OddFile half(dir.file("half.h5"));
    half.dataset("/manifest", test::text_type(std::size_t{1} << 29).get(), test::scalar_space(),
                 test::creation_list());
    const OddFile two(dir.file("two.h5"));
    two.dataset("/manifest", test::text_type(std::size_t{1} << 31).get(), test::scalar_space(),
                test::creation_list());
  }
  refuse(dir.file("half.h5"), {"/manifest", "not stored in the file"});
  refuse(dir.file("two.h5"), {"/manifest", "at most 1073741824"});
}

TEST_CASE("an embedded manifest may not be a link") {
  const TempDir dir;
  {
    const OddFile odd(dir.file("soft.h5"));
    odd.manifest(kBareManifest);
    test::done(H5Lmove(odd.id(), "/manifest", odd.id(), "/real", H5P_DEFAULT, H5P_DEFAULT));
    test::done(H5Lcreate_soft("/real", odd.id(), "/manifest", H5P_DEFAULT, H5P_DEFAULT));
  }
  refuse(dir.file("soft.h5"), {"/manifest", "soft or external link"});
}

TEST_CASE("a manifest error of a single file names the file and the dataset") {
  const TempDir dir;
  OddFile(dir.file("t.h5")).manifest(R"({"schema": "x"})");
  refuse(dir.file("t.h5"), {dir.file("t.h5") + ": /manifest: /schema: "});
}

TEST_CASE("a single file holds rank 0 and nothing else") {
  const TempDir dir;
  const auto with_meshes = [](const std::string& meshes) {
    return R"({"schema": "ttrace.manifest/2", "tensors": [], "meshes": )" + meshes + "}";
  };
  OddFile(dir.file("two.h5"))
      .manifest(with_meshes(R"({"": {"axes": [{"name": "tp", "size": 2}]}})"));
  refuse(dir.file("two.h5"), {"axis \"tp\" has size 2", "a single file holds one rank"});
  OddFile(dir.file("three.h5"))
      .manifest(with_meshes(R"({"": {"axes": []}, "e\u001b": {"axes": [], "ranks": [3]}})"));
  refuse(dir.file("three.h5"), {"/meshes/e\\x1b/ranks", "rank 3"});
  OddFile(dir.file("one.h5"))
      .manifest(with_meshes(R"({"": {"axes": [{"name": "tp", "size": 1}], "ranks": [0]}})"));
  CHECK(open_trace(dir.file("one.h5"))->manifest().meshes.at("").ranks.size() == 1);
}

TEST_CASE("what is no HDF5 file is refused") {
  const TempDir dir;
  refuse(dir.file("absent.h5"), {dir.file("absent.h5"), "o such file"});
  test::write_file(dir.file("text.h5"), "this is not HDF5\n");
  refuse(dir.file("text.h5"), {dir.file("text.h5"), "is a text file, not a trace"});
  test::write_file(dir.file("empty.h5"), "");
  refuse(dir.file("empty.h5"), {"not a readable HDF5 file"});
  test::write_file(dir.file("signature.h5"), "\x89HDF\r\n\x1a\n");
  refuse(dir.file("signature.h5"), {"not a readable HDF5 file"});
}

}  // namespace
}  // namespace ttrace::trace::hdf5::single_file_test
