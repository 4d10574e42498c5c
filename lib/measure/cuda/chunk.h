// A workspace that is filled with staged inputs and their jobs, runs them in one go on its device,
// and hands the results to their consumers. If the device fails, the CPU computes the same results
// from the staged inputs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "measure/backend.h"
#include "measure/cuda/consumers.h"
#include "measure/cuda/workspace.h"

namespace ttrace::measure::cuda {

class Chunk {
 public:
  explicit Chunk(std::unique_ptr<Workspace> workspace) : workspace_(std::move(workspace)) {}

  // What a run of elements takes: bytes of all its inputs, jobs, and results per tile.
  struct Need {
    std::uint64_t bytes_per_element = 0;
    std::uint64_t inputs = 0;
    std::uint64_t jobs = 0;
    std::uint64_t results_per_tile = 0;
  };
  // Returns how many of `elements` elements fit beside what is staged: all, or whole tiles.
  std::uint64_t room_for(const Need& need, std::uint64_t elements) const;
  // Returns how many of `elements` elements fit into an empty chunk: all, or whole tiles.
  std::uint64_t most_of(const Need& need, std::uint64_t elements) const;

  // Returns room for an input, valid until complete().
  std::span<std::byte> reserve(std::uint64_t bytes);
  void add(const TileRun& run);
  // Its consumer gets no more runs: it ends after the runs so far.
  void end(std::unique_ptr<Consumer> consumer);

  // Queues uploads, kernels and downloads.
  void submit();
  // Waits, and hands the results over in the order of the runs. The chunk is empty then. Returns
  // the number of runs that `cpu` computed again. Throws an input error if it needs values that
  // `pool` cannot fetch from the device.
  std::uint64_t complete(const Backend& cpu, WorkspacePool& pool);

  // Runs `request` on inputs that this chunk, which must be empty, has room for. False if the
  // device failed or there is no room; nothing is changed then.
  bool run(const RowsRequest& request);

  std::uint32_t device() const { return workspace_->device(); }
  bool empty() const { return runs_.empty() && ends_.empty(); }
  bool failed() const { return workspace_->status() != Status::kOk; }
  std::unique_ptr<Workspace> take_workspace() { return std::move(workspace_); }

 private:
  struct End {
    std::size_t after = 0;  // runs
    std::unique_ptr<Consumer> consumer;
  };
  std::uint64_t fits(const Need& need, std::uint64_t elements, std::uint64_t bytes,
                     std::uint64_t results) const;
  DeviceValues on_device(const StoredValues& values) const;
  TileLaunch launch_of(std::span<const std::size_t> group, std::uint64_t& results);
  void clear();

  std::unique_ptr<Workspace> workspace_;
  std::uint64_t used_ = 0;     // bytes of inputs
  std::uint64_t results_ = 0;  // of the runs
  std::vector<TileRun> runs_;
  std::vector<std::uint64_t> first_results_;  // of every run, once submitted
  std::vector<End> ends_;
};

}  // namespace ttrace::measure::cuda
