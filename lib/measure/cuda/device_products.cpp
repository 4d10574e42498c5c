#include "measure/cuda/device_products.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "measure/products.h"

namespace ttrace::measure::cuda {
namespace {

// Fewer steps are not worth a launch, and fewer lines no block of threads.
constexpr std::uint64_t kLeastSteps = 256;
constexpr std::uint64_t kLeastLines = 128;
constexpr std::uint64_t kLeastOperandBytes = std::uint64_t{1} << 20;

// A part of an operand, stored on the device without gaps.
struct MatrixBlock {
  MatrixView view;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;

  // Whether neighbouring elements are those of a column.
  bool by_columns() const { return view.column_stride != 1 && view.row_stride == 1; }
  std::uint64_t lines() const { return by_columns() ? columns : rows; }
  std::uint64_t line_length() const { return by_columns() ? rows : columns; }
  std::int64_t line_stride() const { return by_columns() ? view.column_stride : view.row_stride; }
  std::int64_t step() const { return by_columns() ? view.row_stride : view.column_stride; }
};

// Copies elements and says whether all of them are numbers of binary32.
bool copy(const double* from, std::int64_t step, std::uint64_t count, double* to) {
  bool narrow = true;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double value = from[static_cast<std::int64_t>(i) * step];
    to[i] = value;
    narrow &= static_cast<double>(static_cast<float>(value)) == value;
  }
  return narrow;
}

// The memory of a device for one product.
class Memory {
 public:
  Memory(WorkspacePool& pool, std::uint32_t device, std::uint64_t wanted)
      : pool_(pool),
        device_(device),
        bytes_(pool.take_memory(device, wanted, kLeastOperandBytes)) {}
  ~Memory() {
    if (!bytes_.empty()) pool_.return_memory(device_, bytes_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::uint64_t size() const { return bytes_.size(); }
  double* numbers(std::uint64_t first) const {
    return reinterpret_cast<double*>(bytes_.data()) + first;
  }

 private:
  WorkspacePool& pool_;
  std::uint32_t device_;
  std::span<std::byte> bytes_;
};

// One or two workspaces of a device: while one copies its pinned memory to the device, the other
// one is filled.
class Stages {
 public:
  explicit Stages(WorkspacePool& pool) : pool_(pool) {
    stages_[0] = pool.acquire();
    if (stages_[0]) stages_[1] = pool.acquire(stages_[0]->device());
  }
  ~Stages() {
    wait();
    for (auto& stage : stages_) {
      if (stage) pool_.give_back(std::move(stage));
    }
  }
  Stages(const Stages&) = delete;
  Stages& operator=(const Stages&) = delete;

  bool exist() const { return stages_[0] != nullptr; }
  Workspace& first() { return *stages_[0]; }
  // Returns the workspace that was filled less recently, once its copies are done.
  Workspace& next() {
    if (stages_[1]) turn_ = 1 - turn_;
    stages_[turn_]->wait();
    return *stages_[turn_];
  }
  // Waits for both. False if one has failed.
  bool wait() {
    bool good = true;
    for (const auto& stage : stages_) {
      if (!stage) continue;
      stage->wait();
      good = good && stage->status() == Status::kOk;
    }
    return good;
  }

 private:
  WorkspacePool& pool_;
  std::array<std::unique_ptr<Workspace>, 2> stages_;
  std::size_t turn_ = 0;
};

// The part of an operand that the device holds.
struct Held {
  std::uint64_t row = 0;
  std::uint64_t column = 0;
  DeviceOperand operand;
  bool narrow = false;
};

class DeviceProduct {
 public:
  DeviceProduct(Stages& stages, const Memory& memory, const ProductBlocks& blocks, DeviceGemm* gemm,
                const Product& product)
      : stages_(stages),
        blocks_(blocks),
        gemm_(gemm),
        product_(product),
        a_(memory.numbers(0)),
        b_(memory.numbers(blocks.m * blocks.k)),
        c_(memory.numbers(blocks.m * blocks.k + blocks.k * blocks.n)) {}

  // Returns the number of blocks of the result that the CPU computed.
  std::uint64_t run() {
    std::uint64_t redone = 0;
    for (std::uint64_t i = 0; i < product_.m; i += blocks_.m) {
      for (std::uint64_t j = 0; j < product_.n; j += blocks_.n) {
        const std::uint64_t m = std::min(blocks_.m, product_.m - i);
        const std::uint64_t n = std::min(blocks_.n, product_.n - j);
        if (multiply(i, j, m, n)) continue;
        ++redone;
        measure::multiply(m, n, product_.k, product_.a.at(i, 0), product_.b.at(0, j), result(i, j),
                          product_.row_stride, product_.add);
      }
    }
    return redone;
  }

 private:
  double* result(std::uint64_t row, std::uint64_t column) const {
    return product_.c + static_cast<std::int64_t>(row) * product_.row_stride +
           static_cast<std::int64_t>(column);
  }

  // One block of the result. False if the device failed; the result is as before then.
  bool multiply(std::uint64_t row, std::uint64_t column, std::uint64_t m, std::uint64_t n) {
    if (!stages_.wait()) return false;
    if (product_.add) upload({{result(row, column), product_.row_stride, 1}, m, n}, c_);
    for (std::uint64_t step = 0; step < product_.k; step += blocks_.k) {
      const std::uint64_t k = std::min(blocks_.k, product_.k - step);
      hold(held_a_, product_.a, row, step, m, k, a_);
      hold(held_b_, product_.b.transposed(), column, step, n, k, b_);
      ProductLaunch launch;
      launch.m = m;
      launch.n = n;
      launch.k = k;
      launch.a = held_a_->operand;
      launch.b = held_b_->operand;
      launch.c = c_;
      launch.add = product_.add || step > 0;
      launch.exact_products = held_a_->narrow && held_b_->narrow;
      if (!stages_.wait()) return false;
      Workspace& stage = stages_.first();
      const bool estimated =
          gemm_ != nullptr && gemm_->multiply(stage.device(), stage.stream(), launch);
      if (!estimated) stage.launch(launch);
    }
    return download(row, column, m, n);
  }

  // Uploads this part of a matrix, whose rows are the lines of an operand, unless the device holds
  // it.
  void hold(std::optional<Held>& held, const MatrixView& matrix, std::uint64_t row,
            std::uint64_t column, std::uint64_t rows, std::uint64_t columns, double* to) {
    if (held && held->row == row && held->column == column) return;
    const MatrixBlock part{matrix.at(row, column), rows, columns};
    held.emplace();
    held->row = row;
    held->column = column;
    held->narrow = upload(part, to);
    held->operand = part.by_columns() ? DeviceOperand{to, 1, rows} : DeviceOperand{to, columns, 1};
  }

  // Returns whether all elements are numbers of binary32.
  bool upload(const MatrixBlock& part, double* to) {
    // What the device still reads must not be overwritten.
    stages_.wait();
    const std::uint64_t length = part.line_length();
    const std::uint64_t count = part.lines() * length;
    bool narrow = true;
    for (std::uint64_t first = 0; first < count;) {
      Workspace& stage = stages_.next();
      const std::span<std::byte> room = stage.inputs();
      auto* const numbers = reinterpret_cast<double*>(room.data());
      const std::uint64_t here =
          std::min<std::uint64_t>(room.size() / sizeof(double), count - first);
      for (std::uint64_t done = 0; done < here;) {
        const std::uint64_t line = (first + done) / length;
        const std::uint64_t at = (first + done) % length;
        const std::uint64_t run = std::min(length - at, here - done);
        const double* from = part.view.data + static_cast<std::int64_t>(line) * part.line_stride() +
                             static_cast<std::int64_t>(at) * part.step();
        narrow = copy(from, part.step(), run, numbers + done) && narrow;
        done += run;
      }
      stage.upload_to(to + first, here * sizeof(double));
      first += here;
    }
    return narrow;
  }

  bool download(std::uint64_t row, std::uint64_t column, std::uint64_t m, std::uint64_t n) {
    // The device's copy is complete before any of the result is written.
    if (!stages_.wait()) return false;
    Workspace& stage = stages_.first();
    const std::uint64_t most = stage.inputs().size() / sizeof(double);
    std::vector<double> block(m * n);
    for (std::uint64_t first = 0; first < block.size(); first += most) {
      const std::uint64_t here = std::min<std::uint64_t>(most, block.size() - first);
      stage.download_from(c_ + first, here * sizeof(double));
      stage.wait();
      if (stage.status() != Status::kOk) return false;
      const auto* const numbers = reinterpret_cast<const double*>(stage.inputs().data());
      std::copy(numbers, numbers + here, block.begin() + static_cast<std::ptrdiff_t>(first));
    }
    for (std::uint64_t i = 0; i < m; ++i) {
      const auto line = block.begin() + static_cast<std::ptrdiff_t>(i * n);
      std::copy(line, line + static_cast<std::ptrdiff_t>(n), result(row + i, column));
    }
    return true;
  }

  Stages& stages_;
  ProductBlocks blocks_;
  DeviceGemm* gemm_;
  const Product& product_;
  double* a_;
  double* b_;
  double* c_;
  std::optional<Held> held_a_;
  std::optional<Held> held_b_;
};

}  // namespace

ProductBlocks blocks_within(ProductBlocks whole, std::uint64_t bytes) {
  // Fewer steps at a time cost no copies as long as the whole result stays on the device.
  while (whole.bytes() > bytes) {
    std::uint64_t& lines = whole.m > whole.n ? whole.m : whole.n;
    if (whole.k > kLeastSteps) {
      whole.k = (whole.k + 1) / 2;
    } else if (lines > kLeastLines) {
      lines = (lines + 1) / 2;
    } else {
      return {};
    }
  }
  return whole;
}

bool multiply_on_device(WorkspacePool& pool, DeviceGemm* gemm, const Product& product) {
  if (product.m == 0 || product.n == 0 || product.k == 0) return false;
  const ProductBlocks whole{product.m, product.n, product.k};
  Stages stages(pool);
  if (stages.exist()) {
    const Memory memory(pool, stages.first().device(), whole.bytes());
    const ProductBlocks blocks = blocks_within(whole, memory.size());
    if (blocks.m > 0) {
      pool.count_redone(DeviceProduct(stages, memory, blocks, gemm, product).run());
      return true;
    }
  }
  pool.count_refused();
  return false;
}

}  // namespace ttrace::measure::cuda
