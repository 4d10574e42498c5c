// Element-wise operations.
#include <cmath>

#include "specification/primitives/families.h"
#include "specification/primitives/functions.h"
#include "specification/primitives/loops.h"
#include "specification/primitives/noise.h"
#include "specification/primitives/rounded_number.h"
#include "specification/primitives/shape_rules.h"

namespace ttrace::specification {
namespace {

// Evaluates F()(x, y, ...) for every element of the broadcast arguments.
template <typename F, std::size_t... K>
Value evaluate_each(const EvaluationCall& call, std::index_sequence<K...>) {
  return map<sizeof...(K)>(call.context, {call.arguments[K]->expanded(call.shape)...}, F());
}

template <typename F, std::size_t N>
Value each(const EvaluationCall& call) {
  return evaluate_each<F>(call, std::make_index_sequence<N>());
}

template <typename F, std::size_t... K>
Value evaluate_rounding_inside(const EvaluationCall& call, std::index_sequence<K...>) {
  const std::array<Value, sizeof...(K)> values{
      call.arguments[K]->expanded(call.shape).to_dense()...};
  const Noise noise = call.noise->stream(1);
  const double unit = accumulation_roundoff(call.dtype);
  Value result = Value::uninitialised(call.shape);
  double* out = result.fresh();
  for_ranges(call.context, result.size(), kElementsPerCall,
             [&](std::uint64_t begin, std::uint64_t end) {
               for (std::uint64_t i = begin; i < end; ++i) {
                 RoundingSource source(noise, unit, i);
                 out[i] = F()(RoundedNumber(values[K].data()[i], source)...).value();
               }
             });
  return result;
}

// Does what each() does, for a formula that a kernel evaluates in several steps, in binary32 or
// wider: under noise each step is rounded. F takes doubles and RoundedNumbers.
template <typename F, std::size_t N>
Value each_in_steps(const EvaluationCall& call) {
  if (call.noise == nullptr) return each<F, N>(call);
  return evaluate_rounding_inside<F>(call, std::make_index_sequence<N>());
}

template <auto function>
struct Call {
  template <typename... Numbers>
  double operator()(Numbers... numbers) const {
    return function(numbers...);
  }
};

double sign(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }
// NaN wins, as in torch.
double larger(double x, double y) { return x > y || std::isnan(x) ? x : y; }
double smaller(double x, double y) { return x < y || std::isnan(x) ? x : y; }

#define TTRACE_FORMULA(name, arguments, formula) \
  struct name {                                  \
    template <typename T>                        \
    T operator() arguments const {               \
      return formula;                            \
    }                                            \
  }
TTRACE_FORMULA(Exponential, (T x), exponential(x));
TTRACE_FORMULA(Logarithm, (T x), logarithm(x));
TTRACE_FORMULA(Sine, (T x), sine(x));
TTRACE_FORMULA(Cosine, (T x), cosine(x));
TTRACE_FORMULA(Asin, (T x), arcsine(x));
TTRACE_FORMULA(Acos, (T x), arccosine(x));
TTRACE_FORMULA(Atan, (T x), arctangent(x));
TTRACE_FORMULA(Angle, (T x, T y), angle_of_point(x, y));
TTRACE_FORMULA(Sinh, (T x), hyperbolic_sine(x));
TTRACE_FORMULA(Cosh, (T x), hyperbolic_cosine(x));
TTRACE_FORMULA(Tanh, (T x), hyperbolic_tangent(x));
TTRACE_FORMULA(Asinh, (T x), inverse_hyperbolic_sine(x));
TTRACE_FORMULA(Acosh, (T x), inverse_hyperbolic_cosine(x));
TTRACE_FORMULA(Atanh, (T x), inverse_hyperbolic_tangent(x));
TTRACE_FORMULA(Erf, (T x), error_function(x));
TTRACE_FORMULA(Power, (T x, T y), power(x, y));
TTRACE_FORMULA(Sigmoid, (T x), sigmoid(x));
TTRACE_FORMULA(Silu, (T x), silu(x));
TTRACE_FORMULA(Softplus, (T x), softplus(x));
TTRACE_FORMULA(GeluErf, (T x), gelu(x));
TTRACE_FORMULA(GeluTanh, (T x), gelu_tanh(x));
TTRACE_FORMULA(SigmoidGrad, (T g, T y), sigmoid_slope_times(g, y));
TTRACE_FORMULA(TanhGrad, (T g, T y), g * (1.0 - y * y));
TTRACE_FORMULA(SiluGrad, (T g, T x), g* silu_slope(x));
TTRACE_FORMULA(SoftplusGrad, (T g, T x), g* sigmoid(x));
TTRACE_FORMULA(GeluErfGrad, (T g, T x), g* gelu_slope(x));
TTRACE_FORMULA(GeluTanhGrad, (T g, T x), g* gelu_tanh_slope(x));
#undef TTRACE_FORMULA

Value evaluate_gelu(const EvaluationCall& call) {
  return call.attributes.flag("tanh") ? each_in_steps<GeluTanh, 1>(call)
                                      : each_in_steps<GeluErf, 1>(call);
}
Value evaluate_gelu_grad(const EvaluationCall& call) {
  return call.attributes.flag("tanh") ? each_in_steps<GeluTanhGrad, 2>(call)
                                      : each_in_steps<GeluErfGrad, 2>(call);
}

Value evaluate_clamp(const EvaluationCall& call) {
  const bool has_low = call.attributes.has("low");
  const bool has_high = call.attributes.has("high");
  const double low = has_low ? call.attributes.number("low") : 0;
  const double high = has_high ? call.attributes.number("high") : 0;
  return map<1>(call.context, {*call.arguments[0]}, [=](double x) {
    if (has_low && x < low) x = low;
    if (has_high && x > high) x = high;
    return x;
  });
}

// A whole number whose bits an operation takes; what is none of them counts as 0.
std::int64_t bits(double x) { return std::abs(x) < 0x1p63 ? static_cast<std::int64_t>(x) : 0; }
double of_bits(std::int64_t x) { return static_cast<double>(x); }

double truth(bool value) { return value ? 1.0 : 0.0; }

#define TTRACE_FUNCTION(name, arguments, formula)         \
  struct name {                                           \
    double operator() arguments const { return formula; } \
  }
TTRACE_FUNCTION(Add, (double x, double y), x + y);
TTRACE_FUNCTION(Subtract, (double x, double y), x - y);
TTRACE_FUNCTION(Multiply, (double x, double y), x* y);
TTRACE_FUNCTION(Divide, (double x, double y), x / y);
TTRACE_FUNCTION(FloorDivide, (double x, double y), (x - floored_remainder(x, y)) / y);
TTRACE_FUNCTION(Negate, (double x), -x);
TTRACE_FUNCTION(Abs, (double x), std::abs(x));
TTRACE_FUNCTION(Floor, (double x), std::floor(x));
TTRACE_FUNCTION(Round, (double x), std::nearbyint(x));
TTRACE_FUNCTION(Sqrt, (double x), std::sqrt(x));
TTRACE_FUNCTION(Rsqrt, (double x), 1 / std::sqrt(x));
TTRACE_FUNCTION(Reciprocal, (double x), 1 / x);
TTRACE_FUNCTION(Relu, (double x), x <= 0 ? 0.0 : x);
TTRACE_FUNCTION(ReluGrad, (double g, double x), x > 0 ? g : 0.0);
TTRACE_FUNCTION(Equal, (double x, double y), truth(x == y));
TTRACE_FUNCTION(NotEqual, (double x, double y), truth(x != y));
TTRACE_FUNCTION(Less, (double x, double y), truth(x < y));
TTRACE_FUNCTION(LessEqual, (double x, double y), truth(x <= y));
TTRACE_FUNCTION(Greater, (double x, double y), truth(x > y));
TTRACE_FUNCTION(GreaterEqual, (double x, double y), truth(x >= y));
TTRACE_FUNCTION(And, (double x, double y), truth(x != 0 && y != 0));
TTRACE_FUNCTION(Or, (double x, double y), truth(x != 0 || y != 0));
TTRACE_FUNCTION(Xor, (double x, double y), truth((x != 0) != (y != 0)));
TTRACE_FUNCTION(Not, (double x), truth(x == 0));
TTRACE_FUNCTION(BitAnd, (double x, double y), of_bits(bits(x) & bits(y)));
TTRACE_FUNCTION(BitOr, (double x, double y), of_bits(bits(x) | bits(y)));
TTRACE_FUNCTION(BitXor, (double x, double y), of_bits(bits(x) ^ bits(y)));
TTRACE_FUNCTION(Where, (double x, double y, double z), x != 0 ? y : z);
#undef TTRACE_FUNCTION

template <typename F, std::size_t N>
Primitive make(std::string_view name, std::vector<std::string_view> arguments, Rounding rounding) {
  return entry(name, std::move(arguments), N, {}, rounding, broadcast_rule, each<F, N>);
}

template <typename F, std::size_t N>
Primitive in_steps(std::string_view name, std::vector<std::string_view> arguments) {
  return entry(name, std::move(arguments), N, {}, Rounding::kOnce, broadcast_rule,
               each_in_steps<F, N>);
}

template <typename F>
Primitive of_x(std::string_view name, Rounding rounding = Rounding::kOnce) {
  return make<F, 1>(name, {"x"}, rounding);
}
template <typename F>
Primitive of_xy(std::string_view name, Rounding rounding = Rounding::kOnce) {
  return make<F, 2>(name, {"x", "y"}, rounding);
}

// x · (first coefficient) + y · (second coefficient), and so on.
template <int... coefficients>
std::optional<std::vector<MatrixTerm>> terms_of_sum(const TermsCall& call) {
  std::vector<MatrixTerm> terms;
  for (const int coefficient : {coefficients...}) {
    const std::size_t i = terms.size();
    terms.push_back({.left = i,
                     .coefficient = static_cast<double>(coefficient),
                     .broadcast = sizeof...(coefficients) > 1 && *call.arguments[i] != call.shape});
  }
  return terms;
}

template <int... coefficients>
Primitive adding_up(Primitive primitive) {
  primitive.terms = terms_of_sum<coefficients...>;
  return primitive;
}

Primitive commutative(Primitive primitive) {
  primitive.commutes = true;
  return primitive;
}

Primitive associative(Primitive primitive) {
  primitive.associates = true;
  return primitive;
}

Primitive finding_equals(Primitive primitive) {
  primitive.finds_equals = true;
  return primitive;
}

}  // namespace

std::vector<Primitive> elementwise_primitives() {
  using enum Rounding;
  using enum AttributeType;
  std::vector<Primitive> all{
      associative(commutative(adding_up<1, 1>(of_xy<Add>("add")))),
      adding_up<1, -1>(of_xy<Subtract>("subtract")),
      associative(commutative(of_xy<Multiply>("multiply"))),
      of_xy<Divide>("divide"),
      commutative(of_xy<Call<larger>>("maximum", kExact)),
      commutative(of_xy<Call<smaller>>("minimum", kExact)),
      in_steps<Power, 2>("power", {"x", "y"}),
      of_xy<Call<floored_remainder>>("remainder"),
      of_xy<FloorDivide>("floor_divide"),
      adding_up<-1>(of_x<Negate>("negate", kExact)),
      of_x<Abs>("abs", kExact),
      of_x<Call<sign>>("sign", kExact),
      of_x<Floor>("floor", kExact),
      of_x<Round>("round", kExact),
      in_steps<Exponential, 1>("exp", {"x"}),
      in_steps<Logarithm, 1>("log", {"x"}),
      of_x<Sqrt>("sqrt"),
      of_x<Rsqrt>("rsqrt"),
      of_x<Reciprocal>("reciprocal"),
      in_steps<Sine, 1>("sin", {"x"}),
      in_steps<Cosine, 1>("cos", {"x"}),
      in_steps<Asin, 1>("asin", {"x"}),
      in_steps<Acos, 1>("acos", {"x"}),
      in_steps<Atan, 1>("atan", {"x"}),
      in_steps<Angle, 2>("atan2", {"x", "y"}),
      in_steps<Sinh, 1>("sinh", {"x"}),
      in_steps<Cosh, 1>("cosh", {"x"}),
      in_steps<Tanh, 1>("tanh", {"x"}),
      in_steps<Asinh, 1>("asinh", {"x"}),
      in_steps<Acosh, 1>("acosh", {"x"}),
      in_steps<Atanh, 1>("atanh", {"x"}),
      in_steps<Erf, 1>("erf", {"x"}),
      in_steps<Sigmoid, 1>("sigmoid", {"x"}),
      of_x<Relu>("relu", kExact),
      in_steps<Silu, 1>("silu", {"x"}),
      in_steps<Softplus, 1>("softplus", {"x"}),
      entry("gelu", {"x"}, 1, {{"tanh", kFlag}}, kOnce, broadcast_rule, evaluate_gelu),
      in_steps<SigmoidGrad, 2>("sigmoid_grad", {"g", "y"}),
      in_steps<TanhGrad, 2>("tanh_grad", {"g", "y"}),
      make<ReluGrad, 2>("relu_grad", {"g", "x"}, kExact),
      in_steps<SiluGrad, 2>("silu_grad", {"g", "x"}),
      in_steps<SoftplusGrad, 2>("softplus_grad", {"g", "x"}),
      entry("gelu_grad", {"g", "x"}, 2, {{"tanh", kFlag}}, kOnce, broadcast_rule,
            evaluate_gelu_grad),
      finding_equals(commutative(of_xy<Equal>("equal", kExact))),
      finding_equals(commutative(of_xy<NotEqual>("not_equal", kExact))),
      of_xy<Less>("less", kExact),
      of_xy<LessEqual>("less_equal", kExact),
      of_xy<Greater>("greater", kExact),
      of_xy<GreaterEqual>("greater_equal", kExact),
      commutative(of_xy<And>("logical_and", kExact)),
      commutative(of_xy<Or>("logical_or", kExact)),
      of_xy<Xor>("logical_xor", kExact),
      of_x<Not>("logical_not", kExact),
      commutative(of_xy<BitAnd>("bitwise_and", kExact)),
      commutative(of_xy<BitOr>("bitwise_or", kExact)),
      commutative(of_xy<BitXor>("bitwise_xor", kExact)),
      make<Where, 3>("where", {"x", "y", "z"}, kExact),
      entry("clamp", {"x"}, 1, {{"low", kNumber, false}, {"high", kNumber, false}}, kExact,
            broadcast_rule, evaluate_clamp),
  };
  for (Primitive& primitive : all) {
    primitive.cut = cut_broadcast;
    primitive.shape_is_layout = true;
  }
  return all;
}

}  // namespace ttrace::specification
