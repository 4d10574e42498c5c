// The members of an answer besides its tensors and findings: see members.h.
#pragma once

#include "answer/members.h"

namespace ttrace::answer {

template <typename Archive, IsA<Answer::Axis> T>
void each_member(Archive& a, T& one) {
  auto& [name, size] = one;
  a.put("name", name);
  a.put("size", size);
}

template <typename Archive, IsA<Answer::Run> T>
void each_member(Archive& a, T& one) {
  auto& [path, ranks, mesh, steps, precision, mesh_ranks] = one;
  a.put("path", path);
  a.put("ranks", ranks);
  a.put("mesh", mesh);
  a.put("steps", steps);
  a.put("precision", precision);
  a.maybe("mesh_ranks", mesh_ranks);
}

template <typename Archive, IsA<Answer::Identity> T>
void each_member(Archive& a, T& one) {
  auto& [run_id, bytes, manifest, content, recorded] = one;
  a.put("run_id", run_id);
  a.put("bytes", bytes);
  a.put("manifest", manifest);
  a.put("content", content);
  a.rest(recorded, {"run_id", "bytes", "manifest", "content"});
}

template <typename Archive, IsA<Answer::Identities> T>
void each_member(Archive& a, T& one) {
  auto& [reference, candidate, run] = one;
  a.maybe("reference", reference);
  a.maybe("candidate", candidate);
  a.maybe("run", run);
}

template <typename Archive, IsA<Answer::Files> T>
void each_member(Archive& a, T& one) {
  auto& [path, modified] = one;
  a.put("path", path);
  a.put("modified", modified);
}

template <typename Archive, IsA<Answer::Places> T>
void each_member(Archive& a, T& one) {
  auto& [reference, candidate, run] = one;
  a.maybe("reference", reference);
  a.maybe("candidate", candidate);
  a.maybe("run", run);
}

template <typename Archive, IsA<Answer::Sharpness> T>
void each_member(Archive& a, T& one) {
  auto& [precision, tensors, median, widest] = one;
  a.put("precision", precision);
  a.put("tensors", tensors);
  a.put("median", median);
  a.put("widest", widest);
}

template <typename Archive, IsA<Answer::Tolerance> T>
void each_member(Archive& a, T& one) {
  auto& [rule, noise_runs, file, sharpness] = one;
  a.put("rule", rule);
  a.put("noise_runs", noise_runs);
  a.maybe("file", file);
  a.put("sharpness", sharpness);
}

template <typename Archive, IsA<Answer::Selected> T>
void each_member(Archive& a, T& one) {
  auto& [only, skip, kinds, steps, common] = one;
  a.put("only", only);
  a.put("skip", skip);
  a.put("kind", kinds);
  a.put("step", steps);
  a.maybe("common", common);
}

template <typename Archive, IsA<Answer::Remark> T>
void each_member(Archive& a, T& one) {
  auto& [name, tensors, unchecked, text] = one;
  a.put("name", name);
  a.put("tensors", tensors);
  a.put("unchecked", unchecked);
  a.put("text", text);
}

template <typename Archive, IsA<Answer::JudgedParameters> T>
void each_member(Archive& a, T& one) {
  auto& [parameters, judged, not_judged, unmoved] = one;
  a.put("parameters", parameters);
  a.put("judged", judged);
  a.put("not_judged", not_judged);
  a.maybe("unmoved", unmoved);
}

template <typename Archive, IsA<Answer::Coverage> T>
void each_member(Archive& a, T& one) {
  auto& [tensors, selected, agree, computed, computed_unchecked, remarks, judged, not_judged,
         below_bound, zero_within_rounding, not_finite, narrow_factors, wide_bound, lacking,
         gradients, coarser, updates, selected_of, overflowed, record_next] = one;
  a.put("tensors", tensors);
  a.maybe("selected", selected);
  a.maybe("agree", agree);
  a.maybe("computed", computed);
  a.maybe("computed_unchecked", computed_unchecked);
  a.maybe("remarks", remarks);
  a.maybe("judged", judged);
  a.maybe("not_judged", not_judged);
  a.maybe("below_bound", below_bound);
  a.maybe("zero_within_rounding", zero_within_rounding);
  a.maybe("not_finite", not_finite);
  a.maybe("narrow_factors", narrow_factors);
  a.maybe("wide_bound", wide_bound);
  a.maybe("lacking", lacking);
  a.maybe("gradients", gradients);
  a.maybe("coarser", coarser);
  a.maybe("updates", updates);
  a.maybe("selected_of", selected_of);
  a.maybe("overflowed", overflowed);
  a.maybe("record_next", record_next);
}

template <typename Archive, IsA<Answer::Group> T>
void each_member(Archive& a, T& one) {
  auto& [id, title, headline, shown, findings] = one;
  a.put("id", id);
  a.put("title", title);
  a.put("headline", headline);
  a.put("shown", shown);
  a.put("findings", findings);
}

template <typename Archive, IsA<Answer::Suspect> T>
void each_member(Archive& a, T& one) {
  auto& [id, used, used_before, largest_before, module, here, local] = one;
  a.put("id", id);
  a.put("used", used);
  a.put("used_before", used_before);
  a.nullable("largest_before", largest_before);
  a.maybe("module", module);
  a.maybe("here", here);
  a.maybe("local", local);
}

template <typename Archive, IsA<Answer::Closest> T>
void each_member(Archive& a, T& one) {
  auto& [id, used] = one;
  a.put("id", id);
  a.put("used", used);
}

template <typename Archive, IsA<Answer::Dropped> T>
void each_member(Archive& a, T& one) {
  auto& [rule, reason, tensors] = one;
  a.put("rule", rule);
  a.put("reason", reason);
  a.put("tensors", tensors);
}

template <typename Archive, IsA<Answer::LeftOut> T>
void each_member(Archive& a, T& one) {
  auto& [reference, candidate] = one;
  a.put("reference", reference);
  a.put("candidate", candidate);
}

template <typename Archive, IsA<Answer::Unexplained> T>
void each_member(Archive& a, T& one) {
  auto& [token, why] = one;
  a.put("token", token);
  a.put("why", why);
}

template <typename Archive, IsA<Answer::Router> T>
void each_member(Archive& a, T& one) {
  auto& [key, tokens, experts, flipped, unexplained, scores, noise, largest_gap, after_flips,
         first_unexplained] = one;
  a.put("key", key);
  a.put("tokens", tokens);
  a.put("experts", experts);
  a.put("flipped", flipped);
  a.put("unexplained", unexplained);
  a.put("scores", scores);
  a.put("noise", noise);
  a.put("largest_gap", largest_gap);
  a.put("after_flips", after_flips);
  a.maybe("first_unexplained", first_unexplained);
}

template <typename Archive, IsA<Answer::Kink> T>
void each_member(Archive& a, T& one) {
  auto& [key, argument, elements, flipped, at_limits, at_maxima, noise, largest, moved] = one;
  a.put("key", key);
  a.put("argument", argument);
  a.put("elements", elements);
  a.put("flipped", flipped);
  a.put("at_limits", at_limits);
  a.put("at_maxima", at_maxima);
  a.put("noise", noise);
  a.put("largest", largest);
  a.put("moved", moved);
}

template <typename Archive, IsA<Answer::Swap> T>
void each_member(Archive& a, T& one) {
  auto& [candidate, reference] = one;
  a.put("candidate", candidate);
  a.put("reference", reference);
}

template <typename Archive, IsA<Answer::Microbatches> T>
void each_member(Archive& a, T& one) {
  auto& [step, reference, candidate, swapped, axis, shown_by, text] = one;
  a.put("step", step);
  a.put("reference", reference);
  a.put("candidate", candidate);
  a.maybe("swapped", swapped);
  a.maybe("axis", axis);
  a.maybe("shown_by", shown_by);
  a.put("text", text);
}

template <typename Archive, IsA<Answer::Rounded> T>
void each_member(Archive& a, T& one) {
  auto& [to, side] = one;
  a.put("to", to);
  a.put("side", side);
}

template <typename Archive, IsA<Answer::OtherStart> T>
void each_member(Archive& a, T& one) {
  auto& [what, step, differ, of, microbatches, rounded, modules, text] = one;
  a.put("what", what);
  a.put("step", step);
  a.put("differ", differ);
  a.maybe("of", of);
  a.maybe("microbatches", microbatches);
  a.maybe("rounded", rounded);
  a.maybe("modules", modules);
  a.put("text", text);
}

template <typename Archive, IsA<Answer::SwappedRuns> T>
void each_member(Archive& a, T& one) {
  auto& [reference_ranks, disagreeing] = one;
  a.put("reference_ranks", reference_ranks);
  a.maybe("disagreeing", disagreeing);
}

template <typename Archive, IsA<Answer::Followed> T>
void each_member(Archive& a, T& one) {
  auto& [name, rule, tensors] = one;
  a.put("name", name);
  a.put("rule", rule);
  a.put("tensors", tensors);
}

template <typename Archive, IsA<Answer::GivenSetting> T>
void each_member(Archive& a, T& one) {
  auto& [name, values, parameters] = one;
  a.put("name", name);
  a.put("values", values);
  a.put("parameters", parameters);
}

template <typename Archive, IsA<Answer::SharpnessOfAudit> T>
void each_member(Archive& a, T& one) {
  auto& [worst_share, worst, gradient] = one;
  a.put("worst_share", worst_share);
  a.nullable("worst", worst);
  a.nullable("gradient", gradient);
}

template <typename Archive, IsA<Answer::CheckedKind> T>
void each_member(Archive& a, T& one) {
  auto& [kind, tensors, checked] = one;
  a.put("kind", kind);
  a.put("tensors", tensors);
  a.put("checked", checked);
}

template <typename Archive, IsA<Answer::Compared> T>
void each_member(Archive& a, T& one) {
  auto& [verdict, why, kinds] = one;
  a.put("verdict", verdict);
  a.put("why", why);
  a.put("kinds", kinds);
}

template <typename Archive, IsA<Answer::CodeTensor> T>
void each_member(Archive& a, T& one) {
  auto& [kind, name, call, copy] = one;
  a.put("kind", kind);
  a.put("name", name);
  a.put("call", call);
  a.put("copy", copy);
}

template <typename Archive, IsA<Answer::CodeDifference> T>
void each_member(Archive& a, T& one) {
  auto& [what, source, tensors] = one;
  a.put("what", what);
  a.put("source", source);
  a.put("tensors", tensors);
}

template <typename Archive, IsA<Answer::Layer> T>
void each_member(Archive& a, T& one) {
  auto& [module, class_name, judged, not_judged, worst_share, broken] = one;
  a.put("module", module);
  a.put("class", class_name);
  a.put("judged", judged);
  a.put("not_judged", not_judged);
  a.put("worst_share", worst_share);
  a.put("broken", broken);
}

template <typename Archive, IsA<Answer::Isolated> T>
void each_member(Archive& a, T& one) {
  auto& [module, source, verdict, phase, wrong, reason] = one;
  a.put("module", module);
  a.put("source", source);
  a.put("verdict", verdict);
  a.nullable("phase", phase);
  a.put("wrong", wrong);
  a.maybe("reason", reason);
}

template <typename Archive, IsA<Answer::PlanFile> T>
void each_member(Archive& a, T& one) {
  auto& [file, modules] = one;
  a.put("file", file);
  a.put("modules", modules);
}

template <typename Archive, IsA<Answer::Known> T>
void each_member(Archive& a, T& one) {
  auto& [id, pattern, file, owner, reason, expires, state, findings, why] = one;
  a.maybe("id", id);
  a.maybe("pattern", pattern);
  a.put("file", file);
  a.put("owner", owner);
  a.put("reason", reason);
  a.put("expires", expires);
  a.put("state", state);
  a.put("findings", findings);
  a.maybe("why", why);
}

template <typename Archive, IsA<Answer::Since> T>
void each_member(Archive& a, T& one) {
  auto& [file, verdict, headline, exit_code] = one;
  a.put("file", file);
  a.put("verdict", verdict);
  a.put("headline", headline);
  a.put("exit_code", exit_code);
}

template <typename Archive, IsA<Answer::Environment> T>
void each_member(Archive& a, T& one) {
  auto& [backend, instruction_set, remarks, threads, seconds, bytes_read, version, traces] = one;
  a.put("backend", backend);
  a.put("instruction_set", instruction_set);
  a.maybe("remarks", remarks);
  a.put("threads", threads);
  a.put("seconds", seconds);
  a.maybe("bytes_read", bytes_read);
  a.put("version", version);
  a.put("traces", traces);
}

template <typename Archive, IsA<Answer::Part> T>
void each_member(Archive& a, T& one) {
  auto& [index, of, interrupted, comparison, files, measurements] = one;
  a.put("index", index);
  a.put("of", of);
  a.put("interrupted", interrupted);
  a.put("comparison", comparison);
  a.maybe("files", files);
  a.lines("measurements", measurements);
}

template <typename Archive, IsA<Answer> T>
void each_member(Archive& a, T& answer) {
  auto& [command, verdict, headline, why, besides, exit_code, reference, candidate, run, identity,
         tolerance, layout_rules, map_rules, selection, specification, candidate_specification,
         map_dropped, left_out, kinds_in_neither, routing, kinks, microbatches, other_start,
         swapped, followed_layouts, frontier_from, counts, coverage, sharpness, given_settings,
         comparison, expressions_compared, code, findings, groups, consequences, suspects, layers,
         plan, isolated, written_plan, not_replayable, detail, closest, results, warnings, part,
         but_for_known, known, beyond_known, required, since, environment] = answer;
  a.put("command", command);
  a.put("verdict", verdict);
  a.put("headline", headline);
  a.maybe("why", why);
  a.maybe("besides", besides);
  a.put("exit_code", exit_code);
  a.maybe("reference", reference);
  a.maybe("candidate", candidate);
  a.maybe("run", run);
  a.put("identity", identity);
  a.maybe("tolerance", tolerance);
  a.maybe("layout_rules", layout_rules);
  a.maybe("map_rules", map_rules);
  a.maybe("selection", selection);
  a.maybe("specification", specification);
  a.maybe("candidate_specification", candidate_specification);
  a.maybe_lines("map_dropped", map_dropped);
  a.maybe("left_out", left_out);
  a.maybe("kinds_in_neither", kinds_in_neither);
  a.maybe_lines("routing", routing);
  a.maybe_lines("kinks", kinks);
  a.maybe("microbatches", microbatches);
  a.maybe("other_start", other_start);
  a.maybe("swapped", swapped);
  a.maybe_lines("followed_layouts", followed_layouts);
  a.maybe("frontier_from", frontier_from);
  a.maybe("counts", counts);
  a.maybe("coverage", coverage);
  a.maybe("sharpness", sharpness);
  a.maybe_lines("given_settings", given_settings);
  a.maybe("comparison", comparison);
  a.maybe("expressions_compared", expressions_compared);
  a.maybe_lines("code", code);
  a.lines("findings", findings);
  a.maybe_lines("groups", groups);
  a.maybe("consequences", consequences);
  a.maybe_lines("suspects", suspects);
  a.maybe_lines("layers", layers);
  a.maybe("plan", plan);
  a.maybe_lines("isolated", isolated);
  a.maybe("written_plan", written_plan);
  a.maybe("not_replayable", not_replayable);
  a.maybe("detail", detail);
  a.maybe("closest", closest);
  a.maybe_lines("results", results);
  a.lines("warnings", warnings);
  a.maybe("part", part);
  a.maybe("but_for_known", but_for_known);
  a.maybe_lines("known", known);
  a.maybe_lines("beyond_known", beyond_known);
  a.maybe_lines("required", required);
  a.maybe("since", since);
  a.put("environment", environment);
}

}  // namespace ttrace::answer
