// Recipes in the words of a command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "synth/recipe.h"

namespace ttrace::synth {

// "4096x4096", "7"; "" has no dimension. All of these throw a usage error that shows the word.
tensor::Shape shape_from(std::string_view word);

// "tp=8", "dp=2", ...: axes of one mesh, the first the slowest.
trace::Mesh mesh_from_words(const std::vector<std::string>& words);

// "tp=shard:1", "dp=partial:mean", "pp=stages", ... for a group whose shape is known: what lies how
// along which axis of `mesh`. "flat" cuts evenly what the other axes leave, so all words come at
// once.
void place_by_words(const std::vector<std::string>& words, const trace::Mesh& mesh, Group& group);

}  // namespace ttrace::synth
