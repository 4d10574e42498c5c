#include "comparison/checkpoint/checkpoint_lines.h"

#include <tuple>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/heap_optional.h"
#include "base/shared_value.h"
#include "comparison/checkpoint/checkpoint.h"

namespace ttrace::comparison {
namespace {

// Every type is taken apart in one place, for both directions. The structured bindings stop
// compiling when a member is added that would be forgotten here.
template <typename Archive, typename Value>
void each_member(Archive& archive, Value& value) {
  using T = std::remove_const_t<Value>;
  if constexpr (std::is_same_v<T, trace::TensorKey>) {
    auto& [step, microbatch, kind, name, call, copy] = value;
    archive(step, microbatch, kind, name, call, copy);
  } else if constexpr (std::is_same_v<T, tensor::Box>) {
    auto& [origin, extent] = value;
    archive(origin, extent);
  } else if constexpr (std::is_same_v<T, measure::Extreme>) {
    auto& [difference, reference, candidate, at] = value;
    archive(difference, reference, candidate, at);
  } else if constexpr (std::is_same_v<T, measure::TileStats>) {
    auto& [elements, finite, d2, d, r2, c2, rc, unequal, nonfinite_r, nonfinite_c, nonfinite_equal,
           nonfinite_different, largest, first_different] = value;
    archive(elements, finite, d2, d, r2, c2, rc, unequal, nonfinite_r, nonfinite_c, nonfinite_equal,
            nonfinite_different, largest, first_different);
  } else if constexpr (std::is_same_v<T, measure::BlockStats>) {
    auto& [owner, stats] = value;
    if constexpr (std::is_const_v<Value>) {
      archive(owner->boxes, owner->ranks, stats, owner->part);
    } else {
      auto& [boxes, ranks, part] = owner.change();
      archive(boxes, ranks, stats, part);
    }
  } else if constexpr (std::is_same_v<T, measure::CellSums>) {
    auto& [d2, a2, along] = value;
    archive(d2, a2, along);
  } else if constexpr (std::is_same_v<T, measure::ElementPlace>) {
    auto& [rank, local] = value;
    archive(rank, local);
  } else if constexpr (std::is_same_v<T, measure::ReplicaDifference>) {
    auto& [distance_norm, classes, path] = value;
    archive(distance_norm, classes, path);
  } else if constexpr (std::is_same_v<T, measure::Measurement>) {
    auto& [total, blocks, cells, has_replicas, replicas_differ, replicas, largest_place,
           bytes_read] = value;
    archive(total, blocks, cells, has_replicas, replicas_differ, replicas, largest_place,
            bytes_read);
  } else if constexpr (std::is_same_v<T, judge::NoiseEstimate>) {
    auto& [reference_norm, norms, largest, grid, cells, coherence] = value;
    archive(reference_norm, norms, largest, grid, cells, coherence);
  } else if constexpr (std::is_same_v<T, measure::WorstUpdate>) {
    auto& [ratio, at, place, replayed, candidate, bound] = value;
    archive(ratio, at, place, replayed, candidate, bound);
  } else if constexpr (std::is_same_v<T, measure::UpdateMeasurement>) {
    auto& [total, blocks, unmoved, unjudged, sum_bound2, largest_place, worst, bytes_read] = value;
    archive(total, blocks, unmoved, unjudged, sum_bound2, largest_place, worst, bytes_read);
  } else if constexpr (std::is_same_v<T, FinishedMeasurement>) {
    auto& [unreadable, measurement, noise] = value;
    archive(unreadable);
    if (unreadable.empty()) archive(measurement, noise);
  } else if constexpr (std::is_same_v<T, FinishedReplay>) {
    auto& [clip, problem, measured] = value;
    archive(clip, problem);
    if (problem.empty()) archive(measured);
  } else {
    static_assert(std::is_same_v<T, FinishedJudgement>);
    auto& [problem, judgement] = value;
    archive(problem);
    if (problem.empty()) archive(judgement);
  }
}

class Writer {
 public:
  template <typename... Values>
  void operator()(const Values&... values) {
    (put(values), ...);
  }
  const std::string& bytes() const { return out_.bytes(); }

 private:
  void put(std::uint64_t value) { out_.count(value); }
  void put(bool value) { out_.count(value ? 1 : 0); }
  void put(double value) { out_.number(value); }
  void put(const std::string& value) { out_.text(value); }
  void put(trace::Kind value) { out_.text(kind_name(value)); }
  void put(tensor::DType value) { out_.text(dtype_name(value)); }
  void put(const measure::Grid& value) { (*this)(value.shape(), value.parts()); }
  template <typename Item>
  void put(const std::vector<Item>& values) {
    out_.count(values.size());
    for (const Item& value : values) put(value);
  }
  void put(const tensor::Shape& values) {
    out_.count(values.size());
    for (const std::uint64_t value : values) put(value);
  }
  template <typename Item>
  void put(const std::optional<Item>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <typename Item>
  void put(const base::HeapOptional<Item>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <typename Item>
  void put(const base::SharedValue<Item>& value) {
    put(*value);
  }
  template <typename Value>
  void put(const Value& value) {
    each_member(*this, value);
  }

  base::ByteWriter out_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : in_(bytes) {}

  template <typename... Values>
  void operator()(Values&... values) {
    (get(values), ...);
  }
  void finish() const { in_.finish(); }

 private:
  void get(std::uint64_t& value) { value = in_.count(); }
  void get(bool& value) { value = in_.flag(); }
  void get(double& value) { value = in_.number(); }
  void get(std::string& value) { value = in_.text(); }
  void get(trace::Kind& value) { value = named(trace::parse_kind(in_.text()), "kind"); }
  void get(tensor::DType& value) { value = named(tensor::parse_dtype(in_.text()), "type"); }
  void get(measure::Grid& value) {
    tensor::Shape shape;
    tensor::Shape parts;
    (*this)(shape, parts);
    value = measure::Grid(std::move(shape), std::move(parts));
  }
  template <typename Item>
  void get(std::vector<Item>& values) {
    // Grows with the values that are there: a false count gets no memory.
    values.clear();
    for (std::uint64_t left = in_.items(); left > 0; --left) {
      Item item{};
      get(item);
      values.push_back(std::move(item));
    }
  }
  void get(tensor::Shape& values) {
    values.clear();
    for (std::uint64_t left = in_.items(); left > 0; --left) values.push_back(in_.count());
  }
  template <typename Item>
  void get(std::optional<Item>& value) {
    value.reset();
    if (in_.flag()) get(value.emplace());
  }
  template <typename Item>
  void get(base::HeapOptional<Item>& value) {
    value.reset();
    if (in_.flag()) get(value.emplace());
  }
  template <typename Item>
  void get(base::SharedValue<Item>& value) {
    Item item;
    get(item);
    value = item == Item{} ? base::SharedValue<Item>() : base::SharedValue<Item>(std::move(item));
  }
  template <typename Value>
  void get(Value& value) {
    each_member(*this, value);
  }

  template <typename Value>
  static Value named(const std::optional<Value>& value, const char* what) {
    if (!value) throw base::input_error("names an unknown ", what);
    return *value;
  }

  base::ByteReader in_;
};

template <typename What>
Finished parsed(Reader& in, trace::TensorKey key) {
  What what;
  in(what);
  in.finish();
  return {std::move(key), std::move(what)};
}

constexpr std::uint64_t kSorts = std::variant_size_v<decltype(Finished::what)>;

Finished parsed_sort(std::uint64_t sort, Reader& in, trace::TensorKey key) {
  switch (sort) {
    case 0:
      return parsed<FinishedMeasurement>(in, std::move(key));
    case 1:
      return parsed<FinishedReplay>(in, std::move(key));
    default:
      return parsed<FinishedJudgement>(in, std::move(key));
  }
}

}  // namespace

const std::string& problem_of(const Finished& finished) {
  if (const auto* measured = std::get_if<FinishedMeasurement>(&finished.what)) {
    return measured->unreadable;
  }
  if (const auto* replay = std::get_if<FinishedReplay>(&finished.what)) return replay->problem;
  return std::get<FinishedJudgement>(finished.what).problem;
}

std::string finished_line(const Finished& finished) {
  Writer out;
  out(finished.what.index() + kSorts * static_cast<std::uint64_t>(finished.of), finished.key);
  std::visit([&out](const auto& what) { out(what); }, finished.what);
  base::ByteWriter sum;
  sum.count(base::fnv1a(out.bytes()));
  return base::concat(base::base64(out.bytes()), " ", base::base64(sum.bytes()));
}

Finished parse_finished(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) throw base::input_error("ends before it is complete");
  const std::string bytes = base::from_base64(line.substr(0, space));
  const std::string sum_bytes = base::from_base64(line.substr(space + 1));
  base::ByteReader sum(sum_bytes);
  if (sum.count() != base::fnv1a(bytes)) throw base::input_error("is damaged");
  sum.finish();
  Reader in(bytes);
  std::uint64_t index = 0;
  trace::TensorKey key;
  in(index, key);
  if (index / kSorts > static_cast<std::uint64_t>(WorkOf::kReference)) {
    throw base::input_error("is of an unknown sort");
  }
  Finished finished = parsed_sort(index % kSorts, in, std::move(key));
  finished.of = static_cast<WorkOf>(index / kSorts);
  return finished;
}

}  // namespace ttrace::comparison
