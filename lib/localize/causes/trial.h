// Tries a hypothesis: what a cause would have made of the reference, against the candidate.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/message.h"
#include "localize/causes/cause.h"

namespace ttrace::localize {

// A hypothesis that leaves more of the difference explains too little of it.
inline constexpr double kMostLeft = 0.25;
// Another tensor is named as the source of a value where none that cannot be, or is as good, is
// nearer than this many times its distance.
inline constexpr double kFewestTimesAsFar = 2;

// Reads the tensor once if no finder has done so before. Null for tensors that are too large, and
// where values are not finite on one side.
const Profile* profile_of(const Case& the_case);

// ‖C - R‖; of integers the root of the number that differ.
double difference_of(const Case& the_case);

// How much both tensors vary, by a sample around the largest difference.
struct Variety {
  std::uint64_t of_reference = 0;  // distinct values, at most kMostDistinct
  std::uint64_t of_candidate = 0;
  // ‖X - its mean‖ of the whole tensor.
  double reference_deviation = 0;
  double candidate_deviation = 0;
};
inline constexpr std::uint64_t kMostDistinct = 64;  // "many"
const Variety& variety_of(const Case& the_case);

// What a hypothesis was chosen from.
struct Choice {
  std::uint64_t hypotheses = 1;  // alike, of which it is the best
  std::uint64_t fitted = 0;      // numbers that were fitted to the tensor
  bool may_be_constant = false;  // it says where values are wrong or zero, and not what they are
};

// Whether so good a choice would often fit two tensors that have nothing to do with each other: of
// n independent values each comes as near by chance as the share of the difference that is left.
bool is_by_chance(const Case& the_case, double left, const Choice& choice);

// Whether a hypothesis that leaves an error of this norm explains the difference: the rest is
// within the tolerance (of integers: nothing), a small part of the difference, and no chance.
bool explains(const Case& the_case, double left, const Choice& choice = {});

// The norm in units of the reference's, as Cause::unexplained is; of a reference of zeros the norm
// itself.
double relative_to_reference(const Case& the_case, double norm);
double reference_unit(const Case& the_case);

// A cause whose evidence may name {reference}: "the reference", or "the expected value", which is
// then a value of the cause.
Cause cause_of(const Case& the_case, std::string name, std::string axis, base::Message evidence,
               double unexplained, answer::CauseValues more = {});

// The message as text; it may name {reference}, too.
std::string rendered_for(const Case& the_case, base::Message message);

// A cause_of() that leaves an error of this norm. Its evidence ends with "(what is left: 0.02 of
// the allowed)", which is the value `left`, or for integers with "(nothing is left)".
Cause cause_that_leaves(const Case& the_case, double left, std::string name, std::string axis,
                        base::Message evidence, answer::CauseValues more = {});

// The error as a share of what the tolerance allows; 0 if it allows none.
double share_of_allowed(const Case& the_case, double left);

// Adds a hypothesis that left an error of this norm to the causes tried in vain; of several with
// one name the best counts.
void reject(const Case& the_case, std::string_view name, double left);

// ‖C - other‖, as difference_of; nothing if the shapes differ or a value is finite on one side
// alone.
std::optional<double> distance_from(const Case& the_case, const measure::TensorRef& other,
                                    const measure::TensorRef& candidate);

// Whether the candidate is nearer to `other` than to the reference in some thousand elements around
// the largest difference: a cheap test before distance_from.
bool looks_like(const Case& the_case, const measure::TensorRef& other);

// source[i]: the index along `dim` of the reference's slice that slice i of the candidate should
// be, or kUnknown.
inline constexpr std::int64_t kUnknown = -1;
using SliceMap = std::vector<std::int64_t>;

// The most places by which slices count as shifted; by more, they are in another order.
inline constexpr std::uint64_t kMostPlaces = 8;
// Whether slices that move by so many places within a chunk of `length` count as shifted: by at
// most kMostPlaces and a quarter of the chunk.
bool is_few_places(std::uint64_t places, std::uint64_t length);

struct MappedDistance {
  double left = 0;     // of the slices that are known
  double unknown = 0;  // ‖C - R‖ of the others
};

// Reads both tensors once.
MappedDistance distance_when_mapped(const Case& the_case, std::size_t dim, const SliceMap& source);

// The tensor of another kind, of the same name, step and shape; null where a run lacks it. The case
// must have its record and related tensors.
const comparison::TensorComparison* record_of(const Case& the_case, trace::Kind kind);

// The ranks of the candidate that hold anything of `box`, ascending.
std::vector<std::uint64_t> ranks_in(const Case& the_case, const tensor::Box& box);

// The ranks that hold anything of the tensor.
std::set<std::uint64_t> ranks_with(const measure::TensorRef& tensor);

// The box of slices [first, first + count) along `dim`.
tensor::Box slab(const tensor::Shape& shape, std::size_t dim, std::uint64_t first,
                 std::uint64_t count);

// Sizes greater than one of all axes of the candidate's meshes, ascending.
std::vector<std::uint64_t> axis_sizes(const Case& the_case);

}  // namespace ttrace::localize
