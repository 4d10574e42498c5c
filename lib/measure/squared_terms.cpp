#include "measure/squared_terms.h"

#include <cmath>
#include <cstddef>
#include <vector>

#include "measure/planned_tensor.h"
#include "measure/sections.h"
#include "measure/shard_reader.h"

namespace ttrace::measure {

double squared_terms(const trace::Source& source, const trace::TensorEntry& entry) {
  const auto planned = planned_tensor(source, entry);
  const double factor = planned->plan().combination.factor;
  std::vector<std::byte> bits;
  std::vector<double> values;
  double squares = 0;
  for (const layout::Block& block : planned->plan().blocks) {
    for (const layout::Term& term : block.terms) {
      ShardReader shard(source, entry, term.ranks.front(), block.held);
      for (const layout::PlacedBox& part : block.held.parts) {
        tensor::for_each_sub_box(part.local, kReadElements, [&](const tensor::Box& box) {
          values.resize(tensor::volume(box));
          shard.read_bits(box, bits);
          shard.decode(bits, values);
          for (const double x : values) squares += std::isfinite(x) ? x * x : 0;
        });
      }
    }
  }
  return squares * factor * factor;
}

}  // namespace ttrace::measure
