// Pairs of traces with everything that can be wrong with a run, for property tests.
#pragma once

#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/memory_trace.h"

namespace ttrace::test {

class RandomRuns {
 public:
  explicit RandomRuns(std::uint32_t seed)
      : reference(mesh(seed), "reference"),
        candidate(mesh(seed + 1), "candidate"),
        noise(mesh(seed), "noise"),
        random_(seed) {
    noise.edit().run.noise = trace::NoiseFacts{seed, 1e-7, "first"};
    // Whole categories are left out of some pairs, so that all verdicts occur.
    healthy_ = chance(3);
    complete_ = chance(2);
    has_noise = chance(2);
    const bool noisy = has_noise && chance(4);
    for (const trace::TensorKey& key : keys()) add(key, noisy);
    if (has_noise) add_noise_somewhere();
    if (chance(2)) add_modules();
    if (!healthy_ && !complete_ && chance(8)) candidate.lose_rank(below(2));
    if (!healthy_ && !complete_ && chance(16)) reference.lose_rank(0);
  }

  MemoryTrace reference;
  MemoryTrace candidate;
  MemoryTrace noise;
  bool has_noise = false;

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  bool chance(std::uint64_t one_in) { return below(one_in) == 0; }

 private:
  static constexpr trace::Kind kNotInNoise = trace::Kind::kGradOutput;

  // A noise run that equals the reference is none.
  void add_noise_somewhere() {
    const trace::TensorEntry entry = make_entry("moved", {3});
    put(reference, entry, {1, 2, 3});
    put(noise, entry, {1, 2, 3.00001});
    put(candidate, entry, {1, 2, 3});
  }

  static trace::Mesh mesh(std::uint32_t seed) {
    return seed % 3 == 0 ? trace::Mesh{} : make_mesh({{"dp", 2}, {"tp", 2}});
  }

  std::vector<trace::TensorKey> keys() {
    std::vector<trace::TensorKey> found;
    for (const char* name : {"a", "b", "b[1]", "c.weight", "d\x1b[31m"}) {
      for (const trace::Kind kind : {trace::Kind::kOutput, trace::Kind::kGradOutput,
                                     trace::Kind::kMainGrad, trace::Kind::kParamAfterStep}) {
        if (!chance(4)) continue;
        trace::TensorKey key = ttrace::test::make_key(name, kind, below(2));
        if (chance(2)) key.microbatch = below(2);
        if (chance(8)) key.copy = 1;
        found.push_back(std::move(key));
      }
    }
    return found;
  }

  std::map<std::string, trace::Placement> placements(const trace::TensorEntry& entry,
                                                     const trace::Mesh& mesh) {
    std::map<std::string, trace::Placement> found;
    for (const trace::MeshAxis& axis : mesh.axes) {
      const std::uint64_t kind = below(4);
      if (kind == 1 && !entry.shape.empty()) found[axis.name] = trace::Shard{0, std::nullopt};
      if (kind == 2 && tensor::is_floating(entry.dtype)) found[axis.name] = trace::Partial{};
      if (kind == 3) found[axis.name] = trace::Only{below(axis.size)};
    }
    return found;
  }

  void put(MemoryTrace& trace, trace::TensorEntry entry, const std::vector<double>& values) {
    entry.placements = placements(entry, trace.manifest().meshes.at(""));
    trace.put(entry, values);
  }

  void add(const trace::TensorKey& key, bool noisy) {
    static const std::vector<tensor::Shape> kShapes{{}, {0}, {1}, {5}, {3, 2}};
    static const std::vector<tensor::DType> kTypes{tensor::DType::kFloat32, tensor::DType::kFloat64,
                                                   tensor::DType::kInt64};
    trace::TensorEntry entry = make_entry("", kShapes[below(5)]);
    entry.key = key;
    entry.dtype = kTypes[below(3)];
    std::vector<double> values(*tensor::element_count(entry.shape));
    for (double& value : values) value = static_cast<double>(below(201)) - 100;
    if (chance(10)) std::fill(values.begin(), values.end(), 0.0);
    const bool floating = tensor::is_floating(entry.dtype);
    if (floating && !healthy_ && chance(10)) {
      std::fill(values.begin(), values.end(), std::numeric_limits<double>::quiet_NaN());
    }
    const bool extra = !complete_ && chance(10);
    const bool missing = !complete_ && !extra && chance(10);
    if (!extra) put(reference, entry, values);
    // A noise run has all tensors, but for a kind that it did not record.
    if (has_noise && !extra && key.kind != kNotInNoise) {
      std::vector<double> perturbed = values;
      for (double& value : perturbed) {
        if (floating) value *= noisy ? -1 : 1 + 1e-6;
      }
      put(noise, entry, perturbed);
    }
    if (!missing) put_candidate(entry, values);
  }

  void put_candidate(trace::TensorEntry entry, std::vector<double> values) {
    const bool floating = tensor::is_floating(entry.dtype);
    const std::uint64_t fault = healthy_ ? 0 : below(16);
    if (fault == 1 && !values.empty()) values[below(values.size())] += 1000;
    if (fault == 2 && floating && !values.empty()) {
      values[below(values.size())] = std::numeric_limits<double>::infinity();
    }
    if (fault == 3 && !complete_) {
      entry.shape.push_back(2);
      values.resize(2 * values.size());
    }
    if (fault == 4 && !complete_) {
      entry.dtype = floating ? tensor::DType::kInt64 : tensor::DType::kFloat32;
      std::fill(values.begin(), values.end(), 1.0);
    }
    if (fault == 5 && !complete_) {  // no dataset at all
      candidate.edit().tensors.push_back(entry);
      return;
    }
    put(candidate, entry, values);
    if (fault == 6 && !complete_) {  // of another type than the manifest says
      candidate.put_bits(entry.key, 0, tensor::DType::kBool, {}, {std::byte{1}});
    }
    if (fault == 7 && !values.empty()) spoil_a_copy();
  }

  // The last tensor, where rank 0 holds some of it, gets other values there.
  void spoil_a_copy() {
    const trace::TensorEntry& entry = candidate.manifest().tensors.back();
    try {
      const auto dataset = candidate.open(0, dataset_path(entry.key));
      const auto count = *tensor::element_count(dataset->facts().shape);
      candidate.put_bits(entry.key, 0, entry.dtype, dataset->facts().shape,
                         ttrace::test::encode(entry.dtype, std::vector<double>(count, 7.0)));
    } catch (const std::exception&) {
      return;  // rank 0 holds nothing of it
    }
  }

  void add_modules() {
    trace::Module a;
    a.name = "a";
    a.inputs = {"b"};
    trace::Module b;
    b.name = "b";
    b.inputs = {"a", "b[1]"};
    b.params = {"c.weight"};
    reference.edit().modules = {a, b};
  }

  std::mt19937 random_;
  bool healthy_ = false;
  bool complete_ = false;
};

}  // namespace ttrace::test
