#if TIDEMARK_READS_ONNX
#include "graph/import/onnx/read_tensor.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/import/onnx/element_type.hpp"

namespace tidemark {

DType onnx_dtype(int type, const std::string& where) {
  if (const auto known = onnx_element_type(type)) return *known;
  constexpr std::string_view kNames[] = {"undefined",  "float",   "uint8",  "int8",   "uint16",
                                         "int16",      "int32",   "int64",  "string", "bool",
                                         "float16",    "double",  "uint32", "uint64", "complex64",
                                         "complex128", "bfloat16"};
  const std::string name =
      type >= 0 && type < 17 ? std::string(kNames[type]) : fmt::to_string(type);
  throw UserError(fmt::format("{} has the element type {}, which is not simulated", where, name));
}

namespace read_tensor_detail {
namespace {

double half_to_double(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const double fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return fraction == 0 ? sign * HUGE_VAL : std::nan("");
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

double bfloat16_to_double(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return static_cast<double>(value);
}

template <class T>
T element_at(const std::string& raw, std::size_t index) {
  T value{};
  std::memcpy(&value, raw.data() + index * sizeof(T), sizeof(T));
  return value;
}

// Reads numbers of little-endian bytes (raw_data).
void decode_raw(const std::string& raw, int onnx, OnnxConstant& constant) {
  const auto count = static_cast<std::size_t>(constant.elements().count);
  const Bytes expected = bytes_of(constant.dtype, constant.elements());
  if (raw.size() != static_cast<std::size_t>(expected.count)) return;
  for (std::size_t i = 0; i < count; ++i) {
    switch (onnx) {
      case 1:
        constant.numbers.push_back(static_cast<double>(element_at<float>(raw, i)));
        break;
      case 2:
      case 9:
        constant.integers.push_back(element_at<std::uint8_t>(raw, i));
        break;
      case 3:
        constant.integers.push_back(element_at<std::int8_t>(raw, i));
        break;
      case 6:
      case 12:
        constant.integers.push_back(element_at<std::int32_t>(raw, i));
        break;
      case 7:
      case 13:
        constant.integers.push_back(element_at<std::int64_t>(raw, i));
        break;
      case 10:
        constant.numbers.push_back(half_to_double(element_at<std::uint16_t>(raw, i)));
        break;
      case 11:
        constant.numbers.push_back(element_at<double>(raw, i));
        break;
      case 16:
        constant.numbers.push_back(bfloat16_to_double(element_at<std::uint16_t>(raw, i)));
        break;
      default:
        return;
    }
  }
  constant.known = true;
}

template <class Field>
void decode_field(const Field& field, OnnxConstant& constant) {
  for (const auto value : field) {
    if (is_floating(constant.dtype)) {
      constant.numbers.push_back(static_cast<double>(value));
    } else {
      constant.integers.push_back(static_cast<std::int64_t>(value));
    }
  }
}

}  // namespace
}  // namespace read_tensor_detail

OnnxConstant onnx_constant(const onnx_file::TensorProto& proto, const std::string& where) {
  OnnxConstant constant{.dtype = onnx_dtype(proto.data_type(), where)};
  std::int64_t elements = 1;
  for (std::int64_t extent : proto.dims()) {
    if (extent < 0 || extent > (std::int64_t{1} << 48) / std::max<std::int64_t>(elements, 1)) {
      throw UserError(fmt::format("{} has an impossible extent of {}", where, extent));
    }
    elements *= extent;
    constant.dims.push_back(extent);
  }
  if (elements > kKnownElements.count || proto.data_location() == 1) return constant;
  if (!proto.raw_data().empty() || elements == 0) {
    read_tensor_detail::decode_raw(proto.raw_data(), proto.data_type(), constant);
    return constant;
  }
  const int type = proto.data_type();
  if (type == 10 || type == 16) {  // 16-bit floats stand as bit patterns in int32_data
    for (const std::int32_t bits : proto.int32_data()) {
      const auto half = static_cast<std::uint16_t>(bits);
      constant.numbers.push_back(type == 10 ? read_tensor_detail::half_to_double(half)
                                            : read_tensor_detail::bfloat16_to_double(half));
    }
  } else {
    read_tensor_detail::decode_field(proto.float_data(), constant);
    read_tensor_detail::decode_field(proto.int32_data(), constant);
    read_tensor_detail::decode_field(proto.int64_data(), constant);
    read_tensor_detail::decode_field(proto.double_data(), constant);
    read_tensor_detail::decode_field(proto.uint64_data(), constant);
  }
  const std::size_t found =
      is_floating(constant.dtype) ? constant.numbers.size() : constant.integers.size();
  constant.known = found == static_cast<std::size_t>(elements);
  if (!constant.known) {
    constant.numbers.clear();
    constant.integers.clear();
  }
  return constant;
}

std::optional<OnnxAttribute> onnx_attribute(const onnx_file::AttributeProto& proto,
                                            const std::string& where) {
  switch (proto.type()) {
    case 1:
      return OnnxAttribute(static_cast<double>(proto.f()));
    case 2:
      return OnnxAttribute(proto.i());
    case 3:
      return OnnxAttribute(proto.s());
    case 4:
      return OnnxAttribute(onnx_constant(proto.t(), where));
    case 6:
      return OnnxAttribute(std::vector<double>(proto.floats().begin(), proto.floats().end()));
    case 7:
      return OnnxAttribute(std::vector<std::int64_t>(proto.ints().begin(), proto.ints().end()));
    default:
      return std::nullopt;
  }
}

}  // namespace tidemark
#endif
