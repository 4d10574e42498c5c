// Which values of modules have the padding of parameters in them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "comparison/padding.h"
#include "comparison/tensor_comparison.h"
#include "trace/manifest.h"

namespace ttrace::comparison {

// By module, the parameter whose padding lies in the last dimension of its values: of a product
// with the parameter, and of what is computed from that.
struct PaddedValues {
  using Modules = std::map<std::string, std::string, std::less<>>;

  Modules made_by;   // whose outputs have it
  Modules taken_by;  // whose inputs have it

  // Returns the parameter whose padding the tensor has, if it is such a value, the gradient of one,
  // or a buffer of such a module; else null. `own` is its excess, `padding` the parameters'.
  const std::string* parameter_of(const Pair& pair, const Excess& own, const Excess& padding) const;
};

// Follows the padding of `parameters`, which have the same extents, from the modules that multiply
// by them; lookups have none in what they return. Where all of them are lookups (a tied head that
// reads the weight of the embedding), it begins with the modules without parameters whose outputs
// come to have these extents and which no module with parameters takes. Without a data flow: the
// modules that own the parameters, and the whole model.
PaddedValues padded_values(const std::vector<std::string>& parameters, const Excess& padding,
                           const std::vector<trace::Module>& modules,
                           const std::vector<Pair>& pairs);

// Whether the module looks rows up by their numbers, which are its input.
bool looks_up(const trace::Module& module);

}  // namespace ttrace::comparison
