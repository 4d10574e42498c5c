// check_headers.py must refuse this header: it uses a name of a header that it does not include.
#pragma once

namespace ttrace {

tensor::Shape shape_of_nothing();

}  // namespace ttrace
