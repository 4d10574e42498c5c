#include "trace/hdf5/library/datatype.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/error.h"

namespace ttrace::trace::hdf5 {
namespace {

using tensor::DType;

struct FloatFields {
  std::size_t bytes;
  std::size_t exponent_position;
  std::size_t exponent_bits;
  std::size_t mantissa_bits;
  std::size_t bias;
};

Handle make_float(const FloatFields& fields) {
  Handle type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
  const std::size_t sign = fields.exponent_position + fields.exponent_bits;
  // The fields must fit the size at every step, so shrink the fields before the size.
  const bool made = H5Tset_fields(type.get(), sign, fields.exponent_position, fields.exponent_bits,
                                  0, fields.mantissa_bits) >= 0 &&
                    H5Tset_precision(type.get(), fields.bytes * 8) >= 0 &&
                    H5Tset_size(type.get(), fields.bytes) >= 0 &&
                    H5Tset_ebias(type.get(), fields.bias) >= 0;
  if (!made) throw base::internal_error("making an HDF5 float type: ", last_error());
  return type;
}

Handle make_bool() {
  Handle type(H5Tenum_create(H5T_STD_I8LE), H5Tclose);
  const std::int8_t no = 0;
  const std::int8_t yes = 1;
  H5Tenum_insert(type.get(), "FALSE", &no);
  H5Tenum_insert(type.get(), "TRUE", &yes);
  return type;
}

}  // namespace

Handle make_datatype(DType dtype) {
  const LibraryLock lock;
  const auto copy = [](hid_t standard) { return Handle(H5Tcopy(standard), H5Tclose); };
  switch (dtype) {
    case DType::kFloat64:
      return copy(H5T_IEEE_F64LE);
    case DType::kFloat32:
      return copy(H5T_IEEE_F32LE);
    case DType::kFloat16:
      return make_float({2, 10, 5, 10, 15});
    case DType::kBFloat16:
      return make_float({2, 7, 8, 7, 127});
    case DType::kFloat8E4M3:
      return make_float({1, 3, 4, 3, 7});
    case DType::kFloat8E5M2:
      return make_float({1, 2, 5, 2, 15});
    case DType::kInt8:
      return copy(H5T_STD_I8LE);
    case DType::kInt16:
      return copy(H5T_STD_I16LE);
    case DType::kInt32:
      return copy(H5T_STD_I32LE);
    case DType::kInt64:
      return copy(H5T_STD_I64LE);
    case DType::kUInt8:
      return copy(H5T_STD_U8LE);
    case DType::kUInt16:
      return copy(H5T_STD_U16LE);
    case DType::kUInt32:
      return copy(H5T_STD_U32LE);
    case DType::kUInt64:
      return copy(H5T_STD_U64LE);
    case DType::kBool:
      return make_bool();
    case DType::kTensorFloat32:
      break;
  }
  throw base::internal_error("nothing is stored as ", tensor::dtype_name(dtype));
}

std::optional<DType> recognise_datatype(hid_t type) {
  const LibraryLock lock;
  // Made once, and never closed: a trace has many datasets.
  static const auto* const known = [] {
    auto* const types = new std::vector<Handle>;
    for (const DType dtype : tensor::kAllDTypes) types->push_back(make_datatype(dtype));
    return types;
  }();
  for (std::size_t i = 0; i < known->size(); ++i) {
    if (H5Tequal(type, (*known)[i].get()) > 0) return tensor::kAllDTypes[i];
  }
  return std::nullopt;
}

}  // namespace ttrace::trace::hdf5
