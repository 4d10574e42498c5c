#include "measure/cuda/cuda_backend.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "measure/cuda/chunk.h"
#include "measure/cuda/device_products.h"
#include "measure/cuda/resident.h"
#include "measure/cuda/update_consumer.h"
#include "tensor/run_cursor.h"

namespace ttrace::measure::cuda {
namespace {

// The index of an input that a request does not have.
constexpr std::size_t kAbsent = static_cast<std::size_t>(-1);

// Chunks of one batch that run while it fills another.
constexpr std::size_t kMostRunning = 1;

Chunk::Need need_of(const std::vector<const InputBox*>& inputs, std::size_t jobs,
                    std::uint64_t results_per_tile) {
  Chunk::Need need;
  for (const InputBox* input : inputs) {
    if (!input->values.device) need.bytes_per_element += tensor::element_bytes(input->values.dtype);
  }
  // A formula takes less than the room of two small inputs.
  static_assert(sizeof(UpdateFormula) <= 512);
  need.inputs = inputs.size() + 2;
  need.jobs = jobs;
  need.results_per_tile = results_per_tile;
  return need;
}

bool is_integer64(const StoredValues& values) {
  return values.dtype == tensor::DType::kInt64 || values.dtype == tensor::DType::kUInt64;
}

// Copies the inputs of requests into chunks, which run on devices while the next ones are filled.
// The CPU computes what no device can take.
class CudaBatch : public Batch {
 public:
  // Both must outlive it.
  CudaBatch(WorkspacePool& pool, const Backend& cpu)
      : pool_(pool), cpu_(cpu), on_cpu_(cpu.new_batch()) {}
  ~CudaBatch() override;

  void add(const PairRequest& request) override;
  void add(const NoiseRequest& request) override;
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

  // Copies `box` of the inputs on the host, run by run, and adds the jobs of all uses.
  void stage(const tensor::Box& box, const std::vector<const InputBox*>& inputs,
             std::vector<Use> uses);
  // Whether there is a chunk to fill that takes a tile of so many inputs. Those in the memory of a
  // device need a chunk on it.
  bool is_ready(std::size_t inputs, std::optional<std::uint32_t> on = std::nullopt);
  // Waits for what runs on other devices.
  void move_to(std::uint32_t device);
  // Adds a pair with inputs in the memory of devices.
  void add_resident(const PairRequest& request);
  // Submits the chunk being filled and goes on with another one.
  void next_chunk();
  void complete_oldest();
  // Waits for everything that was added.
  void drain();
  // Computes the request on the CPU, after everything that was added before.
  template <typename Request>
  void forward(const Request& request);

  WorkspacePool& pool_;
  const Backend& cpu_;
  std::unique_ptr<Batch> on_cpu_;
  std::optional<std::uint32_t> on_;  // the device that the request being added needs
  std::unique_ptr<Chunk> filling_;
  std::deque<std::unique_ptr<Chunk>> running_;
};

CudaBatch::~CudaBatch() {
  // Without finish() nobody wants the results, but the device may still use the memory.
  while (!running_.empty()) {
    std::unique_ptr<Workspace> workspace = running_.front()->take_workspace();
    workspace->wait();
    pool_.give_back(std::move(workspace));
    running_.pop_front();
  }
  if (filling_) pool_.give_back(filling_->take_workspace());
}

void CudaBatch::move_to(std::uint32_t device) {
  const bool stays = (!filling_ || filling_->device() == device) &&
                     std::all_of(running_.begin(), running_.end(),
                                 [&](const auto& chunk) { return chunk->device() == device; });
  if (stays) return;
  drain();
  if (filling_) pool_.give_back(filling_->take_workspace());
  filling_.reset();
}

bool CudaBatch::is_ready(std::size_t inputs, std::optional<std::uint32_t> on) {
  if (on) move_to(*on);
  on_ = on;
  if (filling_ && filling_->failed()) drain();
  if (!filling_) {
    if (auto workspace = pool_.acquire(on)) {
      filling_ = std::make_unique<Chunk>(std::move(workspace));
    } else if (!running_.empty()) {
      complete_oldest();
    }
  }
  Chunk::Need most;
  most.bytes_per_element = inputs * sizeof(double);
  most.inputs = most.jobs = most.results_per_tile = inputs;
  if (filling_ && filling_->most_of(most, kTile) > 0) return true;
  if (!on) pool_.count_refused();
  return false;
}

void CudaBatch::complete_oldest() {
  std::unique_ptr<Chunk> chunk = std::move(running_.front());
  running_.pop_front();
  try {
    pool_.count_redone(chunk->complete(cpu_, pool_));
  } catch (const base::InputError&) {
    pool_.give_back(chunk->take_workspace());
    throw;
  }
  if (!filling_ && !chunk->failed()) {
    filling_ = std::move(chunk);
    return;
  }
  pool_.give_back(chunk->take_workspace());
}

void CudaBatch::next_chunk() {
  filling_->submit();
  running_.push_back(std::move(filling_));
  while (running_.size() > kMostRunning) complete_oldest();
  if (filling_) return;
  if (auto workspace = pool_.acquire(on_)) {
    filling_ = std::make_unique<Chunk>(std::move(workspace));
    return;
  }
  // In the middle of a request: the memory of a lost device will do, as the CPU computes from it.
  filling_ = std::move(running_.front());
  running_.pop_front();
  pool_.count_redone(filling_->complete(cpu_, pool_));
}

void CudaBatch::drain() {
  if (filling_ && !filling_->empty()) {
    filling_->submit();
    running_.push_back(std::move(filling_));
  }
  while (!running_.empty()) complete_oldest();
}

void CudaBatch::finish() {
  drain();
  on_cpu_->finish();
  if (filling_) pool_.give_back(filling_->take_workspace());
  filling_.reset();
}

template <typename Request>
void CudaBatch::forward(const Request& request) {
  drain();
  on_cpu_->add(request);
  on_cpu_->finish();
}

CudaBatch::Use CudaBatch::compare(const StoredValues& reference, const StoredValues& candidate,
                                  std::vector<std::size_t> inputs,
                                  std::unique_ptr<Consumer> consumer) {
  Use use;
  const bool alike = reference.dtype == candidate.dtype && reference.scale == 1 &&
                     candidate.scale == 1 && tensor::is_floating(reference.dtype);
  use.arithmetic = alike ? TileArithmetic::kStored : TileArithmetic::kNumbers;
  if (alike) use.dtype = reference.dtype;
  use.inputs = std::move(inputs);
  use.consumer = std::move(consumer);
  return use;
}

void CudaBatch::stage(const tensor::Box& box, const std::vector<const InputBox*>& inputs,
                      std::vector<Use> uses) {
  std::vector<tensor::RunCursor> cursors;
  for (const InputBox* input : inputs) cursors.emplace_back(box, input->box);
  std::uint64_t results = 0;
  for (const Use& use : uses) results += results_per_tile(use.arithmetic);
  const Chunk::Need need = need_of(inputs, uses.size(), results);
  const std::uint64_t count = tensor::volume(box);
  std::vector<StoredValues> staged(inputs.size());
  for (std::uint64_t first = 0; first < count;) {
    const std::uint64_t here = filling_->room_for(need, count - first);
    if (here == 0) {
      next_chunk();
      continue;
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const StoredValues& values = inputs[i]->values;
      const std::size_t width = tensor::element_bytes(values.dtype);
      if (values.device) {
        staged[i] = values;
        staged[i].bits = values.bits.subspan(cursors[i].offset() * width, here * width);
        cursors[i].skip(here);
        continue;
      }
      const std::span<std::byte> room = filling_->reserve(here * width);
      cursors[i].gather(here, values.bits.data(), width, room.data());
      staged[i] = {room, values.dtype, values.scale};
    }
    for (const Use& use : uses) {
      TileRun run;
      run.arithmetic = use.arithmetic;
      run.dtype = use.dtype;
      run.elements = here;
      run.first = first;
      run.consumer = use.consumer.get();
      for (std::size_t n = 0; n < use.inputs.size(); ++n) {
        if (use.inputs[n] != kAbsent) run.inputs[n] = staged[use.inputs[n]];
      }
      if (use.formula) {
        std::byte* const room = filling_->reserve(sizeof *use.formula).data();
        std::memcpy(room, &*use.formula, sizeof *use.formula);
        run.formula = reinterpret_cast<const UpdateFormula*>(room);
      }
      filling_->add(run);
    }
    first += here;
  }
  for (Use& use : uses) filling_->end(std::move(use.consumer));
}

void CudaBatch::add_resident(const PairRequest& request) {
  const std::optional<std::uint32_t> device = device_of(request);
  const std::vector<const InputBox*> inputs{&request.reference, &request.candidate};
  if (device && is_ready(inputs.size(), device)) {
    std::vector<Use> uses;
    uses.push_back(compare(request.reference.values, request.candidate.values, {0, 1},
                           pair_consumer(request.box, *request.stats, nullptr)));
    return stage(request.box, inputs, std::move(uses));
  }
  add(FetchedPair(pool_, request).request());
}

void CudaBatch::add(const PairRequest& request) {
  if (!tensor::empty(request.box) &&
      (is_resident(request.reference) || is_resident(request.candidate))) {
    return add_resident(request);
  }
  const StoredValues& r = request.reference.values;
  const StoredValues& c = request.candidate.values;
  const bool integers = !tensor::is_floating(r.dtype);
  const bool known = !integers || (is_integer64(r) && is_integer64(c));
  if (tensor::empty(request.box) || !known || !is_ready(2)) return forward(request);
  const std::vector<const InputBox*> inputs{&request.reference, &request.candidate};
  const auto stage_part = [&](const tensor::Box& box, std::unique_ptr<Consumer> consumer) {
    std::vector<Use> uses;
    uses.push_back(compare(r, c, {0, 1}, std::move(consumer)));
    if (integers) uses.back().arithmetic = TileArithmetic::kIntegers;
    stage(box, inputs, std::move(uses));
  };
  if (integers) return stage_part(request.box, integer_consumer(request.box, *request.stats));
  if (request.grid == nullptr) {
    return stage_part(request.box, pair_consumer(request.box, *request.stats, nullptr));
  }
  request.grid->for_each_part(request.box, [&](std::size_t cell, const tensor::Box& part) {
    stage_part(part, pair_consumer(part, *request.stats, request.cells + cell));
  });
}

void CudaBatch::add(const NoiseRequest& request) {
  if (tensor::empty(request.box) || request.runs.empty() || !is_ready(1 + request.runs.size())) {
    return forward(request);
  }
  std::vector<const InputBox*> inputs{&request.reference};
  for (const InputBox& run : request.runs) inputs.push_back(&run);
  request.grid->for_each_part(request.box, [&](std::size_t cell, const tensor::Box& part) {
    std::vector<Use> uses;
    for (std::size_t run = 0; run < request.runs.size(); ++run) {
      uses.push_back(compare(request.reference.values, request.runs[run].values, {0, 1 + run},
                             noise_consumer(part, request.sums[run], cell)));
    }
    stage(part, inputs, std::move(uses));
  });
}

void CudaBatch::add(const RowsRequest& request) {
  // These sums continue those of earlier requests, which must therefore be complete.
  drain();
  if (tensor::empty(request.gradient.box) || !is_ready(2)) return forward(request);
  if (filling_->run(request)) return;
  filling_->failed() ? pool_.count_redone(1) : pool_.count_refused();
  forward(request);
}

void CudaBatch::add(const ReplicasRequest& request) {
  const std::size_t width = tensor::element_bytes(request.first.dtype);
  const tensor::Box box = tensor::whole({request.first.bits.size() / width});
  if (tensor::empty(box) || request.others.empty() || !is_ready(1 + request.others.size())) {
    return forward(request);
  }
  std::vector<InputBox> replicas{{box, request.first}};
  for (const std::span<const std::byte> other : request.others) {
    replicas.push_back({box, {other, request.first.dtype, request.first.scale}});
  }
  std::vector<const InputBox*> inputs;
  std::vector<Use> uses;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    inputs.push_back(&replicas[i]);
    if (i == 0) continue;
    uses.push_back(compare(request.first, replicas[i].values, {0, i},
                           replica_consumer(request.squared_distances[i - 1])));
  }
  stage(box, inputs, std::move(uses));
}

void CudaBatch::add(const UpdateRequest& request) {
  const tensor::Box& box = request.updated.box;
  if (tensor::empty(box) || !is_ready(kMostInputs)) return forward(request);
  std::vector<const InputBox*> inputs;
  Use use;
  use.arithmetic = TileArithmetic::kUpdates;
  const auto add_input = [&](const InputBox* input) {
    use.inputs.push_back(input == nullptr ? kAbsent : inputs.size());
    if (input != nullptr) inputs.push_back(input);
  };
  const auto given = [](const std::optional<InputBox>& input) { return input ? &*input : nullptr; };
  add_input(&request.updated);
  add_input(&request.parameter);
  add_input(given(request.gradient));
  add_input(given(request.momentum_buffer ? request.momentum_buffer : request.exp_avg));
  add_input(given(request.exp_avg_sq));
  add_input(given(request.max_exp_avg_sq));
  for (const InputBox* input : inputs) {
    if (!tensor::is_floating(input->values.dtype)) return forward(request);
  }
  use.formula = update_formula(request.step, request.momentum_buffer.has_value());
  use.consumer = update_consumer(cpu_, request);
  std::vector<Use> uses;
  uses.push_back(std::move(use));
  stage(box, inputs, std::move(uses));
}

}  // namespace

CudaBackend::CudaBackend(const Api& api, const std::vector<std::uint32_t>& devices,
                         PoolLimits limits, const Backend& cpu)
    : cpu_(cpu), pool_(api, devices, limits) {
  for (const std::uint32_t index : devices) {
    DeviceInfo info;
    api.describe(index, &info);
    description_ += base::concat(description_.empty() ? "" : ", ", "sm_", info.capability, " ",
                                 base::printable(info.name), " (cuda:", index, ")");
  }
}

std::unique_ptr<Batch> CudaBackend::new_batch() const {
  return std::make_unique<CudaBatch>(pool_, cpu_);
}

std::string CudaBackend::remarks() const {
  std::string text = pool_.remarks();
  if (gemm_ == nullptr) return text;
  const std::string of_gemm = gemm_->remarks();
  return text.empty() || of_gemm.empty() ? text + of_gemm : text + "; " + of_gemm;
}

bool CudaBackend::pays(std::uint64_t m, std::uint64_t n, std::uint64_t k, unsigned threads) const {
  return costs_.product_pays(m, n, k, threads);
}

bool CudaBackend::multiply(const Product& product) const {
  return multiply_on_device(pool_, nullptr, product);
}

bool CudaBackend::estimate(const Product& product) const {
  return multiply_on_device(pool_, gemm_, product);
}

}  // namespace ttrace::measure::cuda
