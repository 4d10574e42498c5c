// Both forms of a trace, and ranks that are lost.
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "base/parallel.h"
#include "base/refusal.h"
#include "support/temp_dir.h"
#include "trace/hdf5/odd_file.h"
#include "trace/hdf5/trace_files.h"
#include "trace/hdf5/writer.h"
#include "trace/open/open_trace.h"

namespace ttrace::trace::hdf5::reader_test {
namespace {

using test::check_refused;
using test::TempDir;

// A directory trace: rank r holds the float32 scalar "/x" of value r.
void write_run(const TempDir& dir, std::uint64_t ranks) {
  Manifest manifest;
  manifest.meshes.emplace("", Mesh{{{"tp", ranks}}, {}});
  for (std::uint64_t rank = 0; rank < ranks; ++rank) {
    const auto sink = create_file(dir.file(rank_file_name(rank)), base::Existing::kKept, rank);
    sink->create("/x", tensor::DType::kFloat32, {});
    const auto value = static_cast<float>(rank);
    sink->write("/x", tensor::whole({}), std::as_bytes(std::span(&value, 1)));
    sink->finish(manifest);
  }
  test::write_file(dir.file("manifest.json"), manifest_text(manifest));
}

float value_of(const Dataset& dataset) {
  float value = -1;
  dataset.read(tensor::whole({}), std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

// Opening or reading must end with an input error, and soon: an alarm ends a test that hangs.
void refuse_soon(const std::string& path, std::initializer_list<std::string_view> parts) {
  ::alarm(20);
  check_refused([&] { open_trace(path); }, parts);
  ::alarm(0);
}

TEST_CASE("rank files are numbered with five digits or more") {
  CHECK(rank_file_name(0) == "rank_00000.h5");
  CHECK(rank_file_name(3) == "rank_00003.h5");
  CHECK(rank_file_name(1234567) == "rank_1234567.h5");
}

TEST_CASE("a directory gives every rank its own values") {
  const TempDir dir;
  write_run(dir, 3);
  const auto source = open_trace(dir.path());
  CHECK(source->path() == dir.path());
  CHECK(source->manifest().meshes.at("").axes.at(0).size == 3);
  for (const std::uint64_t rank : {2U, 0U, 1U}) {
    CHECK(source->rank_file(rank) == dir.file(rank_file_name(rank)));
    CHECK_FALSE(source->rank_problem(rank).has_value());
    CHECK(value_of(*source->open(rank, "/x")) == static_cast<float>(rank));
  }
}

TEST_CASE("a missing rank file is that rank's problem alone") {
  const TempDir dir;
  write_run(dir, 2);
  std::filesystem::remove(dir.file("rank_00001.h5"));
  const auto source = open_trace(dir.path());
  CHECK(value_of(*source->open(0, "/x")) == 0);
  const auto problem = source->rank_problem(1);
  REQUIRE(problem.has_value());
  CHECK(test::contains(*problem, dir.file("rank_00001.h5")));
  check_refused([&] { source->open(1, "/x"); }, {dir.file("rank_00001.h5")});
  // It stays lost, even if the file turns up: a report must not contradict itself.
  const TempDir other;
  write_run(other, 2);
  std::filesystem::copy_file(other.file("rank_00001.h5"), dir.file("rank_00001.h5"));
  CHECK(source->rank_problem(1) == problem);
}

TEST_CASE("a rank file of another rank is refused") {
  const TempDir dir;
  write_run(dir, 2);
  std::filesystem::copy_file(dir.file("rank_00000.h5"), dir.file("rank_00001.h5"),
                             std::filesystem::copy_options::overwrite_existing);
  const auto source = open_trace(dir.path());
  const auto problem = source->rank_problem(1);
  REQUIRE(problem.has_value());
  CHECK(test::contains(*problem, "was written by rank 0"));
  CHECK_FALSE(source->rank_problem(0).has_value());
}

TEST_CASE("a rank file without ttrace_rank is accepted and a strange one refused") {
  const TempDir dir;
  write_run(dir, 2);
  test::OddFile(dir.file("rank_00000.h5")).four_floats("/x");
  {
    const test::OddFile odd(dir.file("rank_00001.h5"));
    const Handle root(H5Gopen2(odd.id(), "/", H5P_DEFAULT), H5Gclose);
    test::OddFile::attribute(root, "ttrace_rank", "one");
  }
  const auto source = open_trace(dir.path());
  CHECK_FALSE(source->rank_problem(0).has_value());
  CHECK(test::contains(source->rank_problem(1).value_or(""), "not a whole number"));
}

TEST_CASE("more ranks than files kept open are read and datasets outlive their files") {
  const TempDir dir;
  constexpr std::uint64_t kRanks = 140;
  write_run(dir, kRanks);
  const auto source = open_trace(dir.path());
  std::vector<std::unique_ptr<Dataset>> datasets;
  for (std::uint64_t rank = 0; rank < kRanks; ++rank) datasets.push_back(source->open(rank, "/x"));
  std::uint64_t right = 0;
  for (std::uint64_t rank = 0; rank < kRanks; ++rank) {
    right += value_of(*datasets[rank]) == static_cast<float>(rank) ? 1 : 0;
    right += value_of(*source->open(rank, "/x")) == static_cast<float>(rank) ? 1 : 0;
  }
  CHECK(right == 2 * kRanks);
}

TEST_CASE("a trace is read from several threads") {
  const TempDir dir;
  write_run(dir, 8);
  const auto source = open_trace(dir.path());
  const auto shared = source->open(5, "/x");
  std::atomic<int> right{0};
  base::parallel_for(400, 4, [&](std::size_t i) {
    const bool own = value_of(*source->open(i % 8, "/x")) == static_cast<float>(i % 8);
    right += own && value_of(*shared) == 5 ? 1 : 0;
  });
  CHECK(right == 400);
}

TEST_CASE("a directory without a manifest is not a trace") {
  const TempDir dir;
  refuse_soon(dir.path(), {dir.file("manifest.json"), "no such file"});
  std::filesystem::create_directory(dir.file("manifest.json"));
  refuse_soon(dir.path(), {dir.file("manifest.json"), "not a regular file"});
}

TEST_CASE("a manifest that is not valid is refused with its file") {
  const TempDir dir;
  test::write_file(dir.file("manifest.json"), "{");
  refuse_soon(dir.path(), {dir.file("manifest.json"), "not valid JSON"});
  test::write_file(dir.file("manifest.json"), R"({"schema": "ttrace.manifest/9"})");
  refuse_soon(dir.path(), {dir.file("manifest.json"), "/schema"});
}

TEST_CASE("pipes do not make the reader wait") {
  const TempDir dir;
  REQUIRE(::mkfifo(dir.file("pipe").c_str(), 0600) == 0);
  refuse_soon(dir.file("pipe"), {"not a regular file"});
  const TempDir run;
  REQUIRE(::mkfifo(run.file("manifest.json").c_str(), 0600) == 0);
  refuse_soon(run.path(), {"not a regular file"});
  const TempDir ranks;
  write_run(ranks, 1);
  std::filesystem::remove(ranks.file("rank_00000.h5"));
  REQUIRE(::mkfifo(ranks.file("rank_00000.h5").c_str(), 0600) == 0);
  ::alarm(20);
  CHECK(
      test::contains(open_trace(ranks.path())->rank_problem(0).value_or(""), "not a regular file"));
  ::alarm(0);
}

TEST_CASE("a directory in place of a rank file is that rank's problem") {
  const TempDir dir;
  write_run(dir, 1);
  std::filesystem::remove(dir.file("rank_00000.h5"));
  std::filesystem::create_directory(dir.file("rank_00000.h5"));
  CHECK(test::contains(open_trace(dir.path())->rank_problem(0).value_or(""), "not a regular file"));
}

}  // namespace
}  // namespace ttrace::trace::hdf5::reader_test
