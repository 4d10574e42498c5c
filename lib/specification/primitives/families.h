// The families of primitives, one file each. A new primitive is an entry in one of them.
#pragma once

#include <vector>

#include "specification/primitives/primitive.h"

namespace ttrace::specification {

std::vector<Primitive> view_primitives();         // views.cpp
std::vector<Primitive> constant_primitives();     // constants.cpp
std::vector<Primitive> cast_primitives();         // casts.cpp
std::vector<Primitive> elementwise_primitives();  // elementwise.cpp
std::vector<Primitive> reduction_primitives();    // reductions.cpp
std::vector<Primitive> softmax_primitives();      // softmax.cpp
std::vector<Primitive> product_primitives();      // products.cpp
std::vector<Primitive> solve_primitives();        // solves.cpp
std::vector<Primitive> fourier_primitives();      // fourier.cpp
std::vector<Primitive> norm_primitives();         // norms.cpp
std::vector<Primitive> attention_primitives();    // attention.cpp
std::vector<Primitive> table_primitives();        // tables.cpp
std::vector<Primitive> choice_primitives();       // choices.cpp
std::vector<Primitive> loss_primitives();         // losses.cpp

}  // namespace ttrace::specification
