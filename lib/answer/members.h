// Describes every struct of an answer once: its members in their order, each with its name. The
// reader, the writer and the schema of answer_json.h follow from this. A member that a list of
// bindings lacks does not compile.
//
// An archive has, for a member `value`:
//   put(name, value)       always there
//   maybe(name, value)     left out where it is nothing: absent, empty, 0 or false
//   nullable(name, value)  null where it is nothing
//   lines(name, value)     as put, of a list with a line for each item; maybe_lines likewise
//   inlined(value, name)   its members stand among those around it; `name` is always one of them
//   rest(value, names)     all members but these, which are texts
#pragma once

#include <type_traits>

#include "answer/answer.h"

namespace ttrace::answer {

template <typename T, typename Described>
concept IsA = std::is_same_v<std::remove_const_t<T>, Described>;

template <typename Archive, IsA<trace::TensorKey> T>
void each_member(Archive& a, T& key) {
  auto& [step, microbatch, kind, name, call, copy] = key;
  a.put("step", step);
  a.nullable("microbatch", microbatch);
  a.put("kind", kind);
  a.put("name", name);
  a.put("call", call);
  a.maybe("copy", copy);
}

template <typename Archive, IsA<AnsweredTensor::Region> T>
void each_member(Archive& a, T& region) {
  auto& [origin, extent] = region;
  a.put("origin", origin);
  a.put("extent", extent);
}

template <typename Archive, IsA<AnsweredTensor::Shard> T>
void each_member(Archive& a, T& shard) {
  auto& [hull, ranks, error, share, boxes] = shard;
  each_member(a, hull);
  a.put("ranks", ranks);
  a.put("error", error);
  a.maybe("share", share);
  a.maybe("boxes", boxes);
}

template <typename Archive, IsA<AnsweredTensor::Slice> T>
void each_member(Archive& a, T& slice) {
  auto& [what, hull, ranks, error, allowed, formula, passing_multiplier] = slice;
  a.put("what", what);
  each_member(a, hull);
  a.put("ranks", ranks);
  a.put("error", error);
  a.put("allowed", allowed);
  a.put("formula", formula);
  a.put("passing_multiplier", passing_multiplier);
}

template <typename Archive, IsA<AnsweredTensor::Largest> T>
void each_member(Archive& a, T& largest) {
  auto& [value, index, reference, candidate, rank, local_index] = largest;
  a.put("value", value);
  a.put("index", index);
  a.put("reference", reference);
  a.put("candidate", candidate);
  a.maybe("rank", rank);
  a.maybe("local_index", local_index);
}

template <typename Archive, IsA<AnsweredTensor::Nonfinite> T>
void each_member(Archive& a, T& nonfinite) {
  auto& [reference, candidate, equal, different, first] = nonfinite;
  a.put("reference", reference);
  a.put("candidate", candidate);
  a.put("equal", equal);
  a.put("different", different);
  a.maybe("first", first);
}

template <typename Archive, IsA<AnsweredTensor::WorstReplay> T>
void each_member(Archive& a, T& worst) {
  auto& [ratio, index, replayed, candidate, bound, rank, local_index] = worst;
  a.put("ratio", ratio);
  a.put("index", index);
  a.put("replayed", replayed);
  a.put("candidate", candidate);
  a.put("bound", bound);
  a.maybe("rank", rank);
  a.maybe("local_index", local_index);
}

template <typename Archive, IsA<AnsweredTensor::AgainstReference> T>
void each_member(Archive& a, T& against) {
  auto& [error, difference_norm, reference_norm] = against;
  a.put("error", error);
  a.put("difference_norm", difference_norm);
  a.put("reference_norm", reference_norm);
}

template <typename Archive, IsA<AnsweredTensor::Replayed> T>
void each_member(Archive& a, T& replayed) {
  auto& [optimizer, updates, outside, unmoved, bound_norm, worst, against_reference] = replayed;
  a.put("optimizer", optimizer);
  a.put("updates", updates);
  a.put("outside", outside);
  a.put("unmoved", unmoved);
  a.put("bound_norm", bound_norm);
  a.nullable("worst", worst);
  a.put("against_reference", against_reference);
}

template <typename Archive, IsA<AnsweredTensor::Numbers> T>
void each_member(Archive& a, T& numbers) {
  auto& [error, error_in_eps, allowed, rule, formula, passing_multiplier, difference_norm,
         reference_norm, candidate_norm, allowed_norm, max_abs, mean_difference, cosine, scale,
         residual, unequal, nonfinite, replica_drift, worst_slice, replay, closest_slice,
         slices_beyond, slices, tokens_left_out, rows_left_out] = numbers;
  a.put("error", error);
  a.nullable("error_in_eps", error_in_eps);
  a.put("allowed", allowed);
  a.put("rule", rule);
  a.put("formula", formula);
  a.nullable("passing_multiplier", passing_multiplier);
  a.put("difference_norm", difference_norm);
  a.put("reference_norm", reference_norm);
  a.put("candidate_norm", candidate_norm);
  a.put("allowed_norm", allowed_norm);
  a.nullable("max_abs", max_abs);
  a.nullable("mean_difference", mean_difference);
  a.nullable("cosine", cosine);
  a.nullable("scale", scale);
  a.nullable("residual", residual);
  a.put("unequal", unequal);
  a.maybe("nonfinite", nonfinite);
  a.maybe("replica_drift", replica_drift);
  a.nullable("worst_slice", worst_slice);
  a.maybe("replay", replay);
  a.maybe("closest_slice", closest_slice);
  a.maybe("slices_beyond", slices_beyond);
  a.maybe("slices", slices);
  a.maybe("tokens_left_out", tokens_left_out);
  a.maybe("rows_left_out", rows_left_out);
}

template <typename Archive, IsA<AnsweredTensor::Check> T>
void each_member(Archive& a, T& check) {
  auto& [id, operation, result, error, bound, expected, reason, by_probes, rows, ranks] = check;
  a.maybe("id", id);
  a.put("operation", operation);
  a.put("result", result);
  a.nullable("error", error);
  a.nullable("bound", bound);
  a.maybe("expected", expected);
  a.maybe("reason", reason);
  a.maybe("by_probes", by_probes);
  a.maybe("rows", rows);
  a.maybe("ranks", ranks);
}

template <typename Archive, IsA<AnsweredTensor> T>
void each_member(Archive& a, T& tensor) {
  auto& [id, key, outcome, shape, dtype, elements, phase, module, layer, candidate_dtype, reason,
         nearest, used, numbers, downstream, checks, known] = tensor;
  a.put("id", id);
  a.put("key", key);
  a.put("outcome", outcome);
  a.maybe("shape", shape);
  a.maybe("dtype", dtype);
  a.maybe("elements", elements);
  a.put("phase", phase);
  a.put("module", module);
  a.maybe("layer", layer);
  a.maybe("candidate_dtype", candidate_dtype);
  a.maybe("reason", reason);
  a.maybe("nearest", nearest);
  a.maybe("used", used);
  a.inlined(numbers, "error");
  a.maybe("downstream", downstream);
  a.maybe("checks", checks);
  a.maybe("known", known);
}

template <typename Archive, IsA<CodeSource> T>
void each_member(Archive& a, T& source) {
  auto& [class_name, called_at] = source;
  a.put("class", class_name);
  a.put("called_at", called_at);
}

template <typename Archive, IsA<AnsweredFinding::Place> T>
void each_member(Archive& a, T& place) {
  auto& [kind, of] = place;
  a.put("kind", kind);
  a.put("of", of);
}

template <typename Archive, IsA<AnsweredFinding::Setting> T>
void each_member(Archive& a, T& setting) {
  auto& [step, name, reference, candidate] = setting;
  a.put("step", step);
  a.put("name", name);
  a.put("reference", reference);
  a.put("candidate", candidate);
}

template <typename Archive, IsA<Cause> T>
void each_member(Archive& a, T& cause) {
  auto& [name, axis, evidence, unexplained, values, fits] = cause;
  static_cast<void>(fits);  // for the pass that explains alone
  a.put("name", name);
  a.nullable("axis", axis);
  a.put("evidence", evidence);
  a.put("unexplained", unexplained);
  a.maybe("values", values);
}

template <typename Archive, IsA<RejectedCause> T>
void each_member(Archive& a, T& rejected) {
  auto& [name, unexplained] = rejected;
  a.put("name", name);
  a.put("unexplained", unexplained);
}

template <typename Archive, IsA<AnsweredFinding> T>
void each_member(Archive& a, T& finding) {
  auto& [id, group, title, headline, outcome, members, one_sided, module, phase, place, source,
         ranks, where, parts, values, merged, replica_classes, depends_on, downstream,
         downstream_total, causes, rejected, shards, record_next, here, local, checks, upstream,
         next, setting, parameters, parameters_total, known] = finding;
  a.put("id", id);
  a.maybe("group", group);
  a.maybe("title", title);
  a.maybe("headline", headline);
  a.put("outcome", outcome);
  a.maybe("members", members);
  a.maybe("one_sided", one_sided);
  a.maybe("module", module);
  a.maybe("phase", phase);
  a.maybe("place", place);
  a.maybe("source", source);
  a.maybe("ranks", ranks);
  a.maybe("where", where);
  a.maybe("parts", parts);
  a.maybe("values", values);
  a.maybe("merged", merged);
  a.maybe("replica_classes", replica_classes);
  a.maybe("depends_on", depends_on);
  a.maybe("downstream", downstream);
  a.maybe("downstream_total", downstream_total);
  a.maybe("causes", causes);
  a.maybe("rejected", rejected);
  a.maybe("shards", shards);
  a.maybe("record_next", record_next);
  a.maybe("here", here);
  a.maybe("local", local);
  a.maybe("checks", checks);
  a.maybe("upstream", upstream);
  a.maybe("next", next);
  a.maybe("setting", setting);
  a.maybe("parameters", parameters);
  a.maybe("parameters_total", parameters_total);
  a.maybe("known", known);
}

}  // namespace ttrace::answer
