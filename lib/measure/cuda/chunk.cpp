#include "measure/cuda/chunk.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <tuple>
#include <utility>

#include "measure/cuda/kernels/rows.h"
#include "tensor/box.h"

namespace ttrace::measure::cuda {
namespace {

constexpr std::uint64_t kAlignment = 256;  // of every input, so that warps read whole lines

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

std::uint64_t Chunk::fits(const Need& need, std::uint64_t elements, std::uint64_t bytes,
                          std::uint64_t results) const {
  // Jobs are written behind the inputs when the chunk is submitted.
  const std::uint64_t overhead = need.inputs * kAlignment + need.jobs * sizeof(TileJob);
  if (bytes <= overhead) return 0;
  const std::uint64_t tiles = results / std::max<std::uint64_t>(1, need.results_per_tile);
  const std::uint64_t most = std::min(
      (bytes - overhead) / std::max<std::uint64_t>(1, need.bytes_per_element), tiles * kTile);
  return most >= elements ? elements : most / kTile * kTile;
}

std::uint64_t Chunk::room_for(const Need& need, std::uint64_t elements) const {
  const std::uint64_t all = workspace_->inputs().size();
  const std::uint64_t taken = used_ + runs_.size() * sizeof(TileJob) + kAlignment;
  return fits(need, elements, all > taken ? all - taken : 0,
              workspace_->results().size() - results_);
}

std::uint64_t Chunk::most_of(const Need& need, std::uint64_t elements) const {
  return fits(need, elements, workspace_->inputs().size() - kAlignment,
              workspace_->results().size());
}

std::span<std::byte> Chunk::reserve(std::uint64_t bytes) {
  const std::span<std::byte> room = workspace_->inputs().subspan(used_, bytes);
  used_ = aligned(used_ + bytes);
  return room;
}

void Chunk::add(const TileRun& run) {
  results_ += run.result_count();
  runs_.push_back(run);
}

void Chunk::end(std::unique_ptr<Consumer> consumer) {
  ends_.push_back({runs_.size(), std::move(consumer)});
}

DeviceValues Chunk::on_device(const StoredValues& values) const {
  const std::byte* const bits = values.bits.data();
  return {values.device ? bits : workspace_->on_device(bits), values.dtype, values.scale};
}

// Writes the jobs of runs of one kind behind what is staged, and returns their launch.
TileLaunch Chunk::launch_of(std::span<const std::size_t> group, std::uint64_t& results) {
  const TileRun& kind = runs_[group.front()];
  TileLaunch launch;
  launch.arithmetic = kind.arithmetic;
  launch.dtype = kind.dtype;
  launch.job_count = static_cast<std::uint32_t>(group.size());
  launch.results = workspace_->device_results() + results;
  const std::span<std::byte> room =
      workspace_->inputs().subspan(used_, group.size() * sizeof(TileJob));
  used_ += room.size();
  launch.jobs = reinterpret_cast<const TileJob*>(workspace_->on_device(room.data()));
  for (std::size_t i = 0; i < group.size(); ++i) {
    const TileRun& run = runs_[group[i]];
    TileJob job;
    for (std::size_t n = 0; n < run.inputs.size(); ++n) {
      if (!run.inputs[n].bits.empty()) job.inputs[n] = on_device(run.inputs[n]);
    }
    if (run.formula != nullptr) job.formula = workspace_->on_device(run.formula);
    job.elements = run.elements;
    job.first_tile = launch.tiles;
    std::memcpy(room.data() + i * sizeof job, &job, sizeof job);
    first_results_[group[i]] = results;
    launch.tiles += run.tiles();
    results += run.result_count();
  }
  return launch;
}

void Chunk::submit() {
  if (runs_.empty()) return;
  const auto kind = [&](std::size_t i) { return std::tuple(runs_[i].arithmetic, runs_[i].dtype); };
  std::vector<std::size_t> order(runs_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return kind(a) < kind(b); });
  first_results_.assign(runs_.size(), 0);
  std::vector<TileLaunch> launches;
  std::uint64_t results = 0;
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first + 1;
    while (end < order.size() && kind(order[end]) == kind(order[first])) ++end;
    launches.push_back(launch_of(std::span(order).subspan(first, end - first), results));
    first = end;
  }
  workspace_->upload(used_);
  for (const TileLaunch& launch : launches) workspace_->launch(launch);
  workspace_->download_results(results);
}

namespace {

void redo_on_host(const TileRun& run, const Backend& cpu, WorkspacePool& pool) {
  TileRun on_host = run;
  std::array<std::vector<std::byte>, kMostInputs> copies;
  for (std::size_t n = 0; n < copies.size(); ++n) {
    StoredValues& input = on_host.inputs[n];
    if (!input.device) continue;
    copies[n].resize(input.bits.size());
    pool.fetch(*input.device, input.bits, copies[n]);
    input = {copies[n], input.dtype, input.scale};
  }
  run.consumer->redo(cpu, on_host);
}

}  // namespace

std::uint64_t Chunk::complete(const Backend& cpu, WorkspacePool& pool) {
  std::uint64_t redone = 0;
  if (!runs_.empty()) workspace_->wait();
  std::size_t ended = 0;
  for (std::size_t i = 0; i <= runs_.size(); ++i) {
    for (; ended < ends_.size() && ends_[ended].after == i; ++ended) ends_[ended].consumer->end();
    if (i == runs_.size()) break;
    const TileRun& run = runs_[i];
    if (failed()) {
      ++redone;
      redo_on_host(run, cpu, pool);
    } else {
      const auto results = workspace_->results().subspan(first_results_[i], run.result_count());
      run.consumer->take(run, results);
    }
  }
  clear();
  return redone;
}

void Chunk::clear() {
  used_ = 0;
  results_ = 0;
  runs_.clear();
  ends_.clear();
}

bool Chunk::run(const RowsRequest& request) {
  const std::uint64_t rows = tensor::volume(request.gradient.box) / request.length;
  const std::uint64_t norms = request.epsilons.size();
  const std::uint64_t count = request.input ? 1 + 2 * norms : 1;
  const std::span<const std::byte> g = request.gradient.values.bits;
  const std::span<const std::byte> x =
      request.input ? request.input->values.bits : std::span<const std::byte>();
  const std::uint64_t numbers = norms + kMoments * rows + 2 * count * request.length;
  const std::uint64_t bytes =
      aligned(g.size()) + aligned(x.size()) + numbers * sizeof(double) + 3 * kAlignment;
  if (bytes > workspace_->inputs().size()) return false;

  const auto staged = [&](std::span<const std::byte> values) {
    const std::span<std::byte> room = reserve(values.size());
    if (!values.empty()) std::memcpy(room.data(), values.data(), values.size());
    return room;
  };
  RowsLaunch launch;
  launch.gradient =
      request.gradient.values.bits.empty()
          ? DeviceValues{}
          : on_device({staged(g), request.gradient.values.dtype, request.gradient.values.scale});
  if (request.input) {
    launch.input = on_device({staged(x), request.input->values.dtype, request.input->values.scale});
  }
  launch.rows = rows;
  launch.length = request.length;
  launch.precision = request.precision;
  launch.norms = static_cast<std::uint32_t>(norms);
  launch.epsilons = reinterpret_cast<const double*>(
      workspace_->on_device(staged(std::as_bytes(request.epsilons)).data()));
  const std::uint64_t length = request.length;
  const std::span<std::byte> sums = reserve(2 * count * length * sizeof(double));
  auto* const host = reinterpret_cast<double*>(sums.data());
  for (std::uint64_t i = 0; i < count; ++i) {
    const ColumnSums& sum = request.sums[i];
    std::copy(sum.exact.begin(), sum.exact.end(), host + 2 * i * length);
    std::copy(sum.stepwise.begin(), sum.stepwise.end(), host + (2 * i + 1) * length);
  }
  launch.sums = workspace_->on_device(host);
  workspace_->upload(used_);
  launch.moments = reinterpret_cast<double*>(
      workspace_->on_device(reserve(kMoments * rows * sizeof(double)).data()));
  workspace_->launch(launch);
  workspace_->download_inputs(sums);
  workspace_->wait();
  clear();
  if (failed()) return false;
  for (std::uint64_t i = 0; i < count; ++i) {
    ColumnSums& sum = request.sums[i];
    std::copy_n(host + 2 * i * length, length, sum.exact.begin());
    std::copy_n(host + (2 * i + 1) * length, length, sum.stepwise.begin());
  }
  return true;
}

}  // namespace ttrace::measure::cuda
