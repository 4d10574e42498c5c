// Element types of a trace: name, size and precision.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace ttrace::tensor {

enum class DType {
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kFloat8E4M3,
  kFloat8E5M2,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
  kBool,
  // A GPU rounds the factors of float32 products to it: ten bits of mantissa. No tensor is stored
  // in it, and such a step computes sums and all else in float32.
  kTensorFloat32,
};

// The types in which tensors are stored.

inline constexpr std::array kAllDTypes{
    DType::kFloat64,    DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3,
    DType::kFloat8E5M2, DType::kInt8,    DType::kInt16,   DType::kInt32,    DType::kInt64,
    DType::kUInt8,      DType::kUInt16,  DType::kUInt32,  DType::kUInt64,   DType::kBool};

// The name used in manifests, e.g. "float8_e4m3fn".
std::string_view dtype_name(DType dtype);
// The name used in reports, e.g. "f8e4m3".
std::string_view dtype_short_name(DType dtype);
// Finds a type in which tensors are stored by its name.
std::optional<DType> parse_dtype(std::string_view name);
// Finds a type in which something is computed, "tf32" included.
std::optional<DType> parse_precision(std::string_view name);
// The type in which a step that computes in `dtype` keeps its values: float32 for tf32.
DType kept_in(DType dtype);

std::size_t element_bytes(DType dtype);
bool is_floating(DType dtype);

// The unit in which errors of this type are counted, the spacing of its numbers just above 1: f64
// 2^-52, f32 2^-23, tf32 and f16 2^-10, bf16 2^-7. FP8 recipes compute in bf16 around the narrow
// products, so both FP8 types use the unit of bf16 (measured on healthy runs). 0 for integers and
// bool.
double epsilon(DType dtype);

// The smallest positive number of the type, a subnormal, which is the spacing of its numbers near
// 0: f16 2^-24, f8e4m3 2^-9. 0 for integers and bool.
double quantum(DType dtype);

}  // namespace ttrace::tensor
