#include "tensor/dtype.h"

namespace ttrace::tensor {
namespace {

struct DTypeFacts {
  std::string_view name;
  std::string_view short_name;
  std::size_t bytes;
  double epsilon;  // 0 for integers and bool
  double quantum;
};

constexpr DTypeFacts facts(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return {"float64", "f64", 8, 0x1p-52, 0x1p-1074};
    case DType::kFloat32:
      return {"float32", "f32", 4, 0x1p-23, 0x1p-149};
    case DType::kFloat16:
      return {"float16", "f16", 2, 0x1p-10, 0x1p-24};
    case DType::kBFloat16:
      return {"bfloat16", "bf16", 2, 0x1p-7, 0x1p-133};
    case DType::kFloat8E4M3:
      return {"float8_e4m3fn", "f8e4m3", 1, 0x1p-7, 0x1p-9};
    case DType::kFloat8E5M2:
      return {"float8_e5m2", "f8e5m2", 1, 0x1p-7, 0x1p-16};
    case DType::kInt8:
      return {"int8", "i8", 1, 0, 0};
    case DType::kInt16:
      return {"int16", "i16", 2, 0, 0};
    case DType::kInt32:
      return {"int32", "i32", 4, 0, 0};
    case DType::kInt64:
      return {"int64", "i64", 8, 0, 0};
    case DType::kUInt8:
      return {"uint8", "u8", 1, 0, 0};
    case DType::kUInt16:
      return {"uint16", "u16", 2, 0, 0};
    case DType::kUInt32:
      return {"uint32", "u32", 4, 0, 0};
    case DType::kUInt64:
      return {"uint64", "u64", 8, 0, 0};
    case DType::kBool:
      return {"bool", "bool", 1, 0, 0};
    case DType::kTensorFloat32:
      return {"tf32", "tf32", 4, 0x1p-10, 0x1p-149};
  }
  return {"", "", 0, 0, 0};
}

}  // namespace

std::string_view dtype_name(DType dtype) { return facts(dtype).name; }

std::string_view dtype_short_name(DType dtype) { return facts(dtype).short_name; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const DType dtype : kAllDTypes) {
    if (facts(dtype).name == name) return dtype;
  }
  return std::nullopt;
}

std::optional<DType> parse_precision(std::string_view name) {
  if (name == facts(DType::kTensorFloat32).name) return DType::kTensorFloat32;
  return parse_dtype(name);
}

DType kept_in(DType dtype) { return dtype == DType::kTensorFloat32 ? DType::kFloat32 : dtype; }

std::size_t element_bytes(DType dtype) { return facts(dtype).bytes; }

bool is_floating(DType dtype) { return facts(dtype).epsilon > 0; }

double epsilon(DType dtype) { return facts(dtype).epsilon; }

double quantum(DType dtype) { return facts(dtype).quantum; }

}  // namespace ttrace::tensor
