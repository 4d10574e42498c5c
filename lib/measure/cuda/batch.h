// A batch of the CUDA backend: copies the inputs of requests into chunks, which run on devices
// while the next ones are filled. What no device can take goes to the CPU.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "measure/backend.h"
#include "measure/cuda/chunk.h"
#include "measure/cuda/workspace.h"

namespace ttrace::measure::cuda {

class CudaBatch : public Batch {
 public:
  // Both must outlive it.
  CudaBatch(WorkspacePool& pool, const Backend& cpu)
      : pool_(pool), cpu_(cpu), on_cpu_(cpu.new_batch()) {}
  ~CudaBatch() override;

  void add(const PairRequest& request) override;
  void add(const NoiseRequest& request) override;
  void add(const TripleRequest& request) override;
  void add(const RowsRequest& request) override;
  void add(const ReplicasRequest& request) override;
  void add(const UpdateRequest& request) override;
  void finish() override;

 private:
  // Computes on some of the inputs of stage().
  struct Use {
    TileArithmetic arithmetic = TileArithmetic::kNumbers;
    tensor::DType dtype = tensor::DType::kFloat32;
    std::vector<std::size_t> inputs;
    std::unique_ptr<Consumer> consumer;
    std::optional<UpdateFormula> formula;
  };
  static Use compare(const StoredValues& reference, const StoredValues& candidate,
                     std::vector<std::size_t> inputs, std::unique_ptr<Consumer> consumer);

  // Copies `box` of the inputs, piece by piece, and adds the jobs of all uses.
  void stage(const tensor::Box& box, const std::vector<const InputBox*>& inputs,
             std::vector<Use> uses);
  // Whether there is a chunk to fill that takes a tile of so many inputs.
  bool is_ready(std::size_t inputs);
  // Submits the chunk being filled and goes on with another one.
  void next_chunk();
  void complete_oldest();
  // Waits for everything that was added.
  void drain();
  // Computes it on the CPU, after everything that was added before.
  template <typename Request>
  void forward(const Request& request);

  WorkspacePool& pool_;
  const Backend& cpu_;
  std::unique_ptr<Batch> on_cpu_;
  std::unique_ptr<Chunk> filling_;
  std::deque<std::unique_ptr<Chunk>> running_;
};

}  // namespace ttrace::measure::cuda
