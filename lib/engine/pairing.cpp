#include "engine/pairing.h"

#include <map>

#include "base/error.h"

namespace ttrace::engine {
namespace {

using EntriesByKey = std::map<trace::TensorKey, const trace::TensorEntry*>;

EntriesByKey by_key(const trace::Manifest& manifest) {
  EntriesByKey entries;
  for (const trace::TensorEntry& entry : manifest.tensors) entries.emplace(entry.key, &entry);
  return entries;
}

const trace::TensorEntry* find(const EntriesByKey& entries, const trace::TensorKey& key) {
  const auto found = entries.find(key);
  return found == entries.end() ? nullptr : found->second;
}

std::string described(const trace::TensorEntry& entry) {
  return base::concat(tensor::to_string(entry.shape), " ", tensor::dtype_short_name(entry.dtype));
}

void require_same_reference(const trace::TensorEntry& reference, const trace::TensorEntry& noise,
                            const trace::Source& run) {
  if (noise.shape == reference.shape && noise.dtype == reference.dtype) return;
  throw base::input_error(run.path(), ": ", to_string(noise.key), ": ", described(noise),
                          " in this noise run, ", described(reference),
                          " in the reference; a noise run is the reference itself, run again with "
                          "its first activation disturbed");
}

}  // namespace

std::vector<Pair> pair_traces(const trace::Source& reference, const trace::Source& candidate,
                              const std::vector<const trace::Source*>& noise) {
  const EntriesByKey references = by_key(reference.manifest());
  const EntriesByKey candidates = by_key(candidate.manifest());
  std::vector<EntriesByKey> noise_entries;
  for (const trace::Source* run : noise) noise_entries.push_back(by_key(run->manifest()));

  std::map<trace::TensorKey, Pair> pairs;
  for (const auto& [key, entry] : references) pairs[key].reference = entry;
  for (const auto& [key, entry] : candidates) {
    Pair& pair = pairs[key];
    pair.candidate = entry;
    if (pair.reference == nullptr && key.copy != 0) {
      trace::TensorKey first_copy = key;
      first_copy.copy = 0;
      pair.reference = find(references, first_copy);
    }
  }
  std::vector<Pair> result;
  result.reserve(pairs.size());
  for (auto& [key, pair] : pairs) {
    pair.key = key;
    for (std::size_t i = 0; i < noise.size() && pair.reference != nullptr; ++i) {
      const trace::TensorEntry* entry = find(noise_entries[i], pair.reference->key);
      if (entry == nullptr) continue;
      require_same_reference(*pair.reference, *entry, *noise[i]);
      pair.noise.push_back({noise[i], entry});
    }
    result.push_back(std::move(pair));
  }
  return result;
}

std::string incomparable_reason(const Pair& pair) {
  const trace::TensorEntry& reference = *pair.reference;
  const trace::TensorEntry& candidate = *pair.candidate;
  const bool same_class =
      tensor::is_floating(reference.dtype) == tensor::is_floating(candidate.dtype);
  if (reference.shape == candidate.shape && same_class) return "";
  return base::concat("reference ", described(reference), ", candidate ", described(candidate));
}

}  // namespace ttrace::engine
