#include "scenarios/studies/operator_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <functional>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/autodiff/differentiate.hpp"
#include "graph/core/errors.hpp"
#include "graph/ir/convolutions.hpp"
#include "graph/models/builder.hpp"

namespace tidemark {
namespace operator_text_detail {
namespace {

using Sizes = std::vector<std::int64_t>;
constexpr std::int64_t kLargest = std::int64_t{1} << 32;  // elements of a tensor

struct Words {
  std::string name;
  std::vector<Sizes> sizes;
  DType dtype = DType::kFloat16;
  bool tf32 = false;
  bool causal = false;
  bool backward = false;
  bool typed = false;  // its type has been given
  std::vector<std::pair<std::string, std::int64_t>> options;
};

class Reader {
 public:
  Reader(const std::string& text, const Location& where) : text_(text), where_(where) {}

  [[noreturn]] void fail(const std::string& problem, std::string_view example) const {
    throw UserError(where_, {},
                    fmt::format("operator {}: {}; an example: {}", tidemark::quoted_excerpt(text_),
                                problem, example));
  }
  [[nodiscard]] Words words() const;
  [[nodiscard]] std::int64_t option(const Words& words, std::string_view name,
                                    std::int64_t fallback) const {
    for (const auto& [key, value] : words.options)
      if (key == name) return value;
    return fallback;
  }

 private:
  [[nodiscard]] std::optional<std::int64_t> number(std::string_view word) const {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    const bool whole = error == std::errc() && end == word.data() + word.size();
    return whole && value >= 0 && value <= kLargest ? std::optional(value) : std::nullopt;
  }
  [[nodiscard]] Sizes sizes(std::string_view word) const;

  const std::string& text_;
  const Location& where_;
};

constexpr std::string_view kExample = "linear 4096x4096x4096 bf16";

Sizes Reader::sizes(std::string_view word) const {
  const std::string_view whole = word;
  Sizes found;
  double elements = 1;
  while (true) {
    const std::size_t end = std::min(word.find('x'), word.size());
    const std::optional<std::int64_t> size = number(word.substr(0, end));
    if (!size || *size < 1) {
      fail(fmt::format("{} is no size, type or option",
                       tidemark::quoted_excerpt(std::string(whole))),
           kExample);
    }
    if (found.size() == static_cast<std::size_t>(kMaxRank)) {
      fail(fmt::format("{} has more than {} sizes", tidemark::quoted_excerpt(std::string(whole)),
                       kMaxRank),
           kExample);
    }
    found.push_back(*size);
    elements *= static_cast<double>(*size);
    if (end == word.size()) break;
    word.remove_prefix(end + 1);
  }
  // Of a product M x N x K no operand has that many elements.
  if (found.size() == 2 && elements > static_cast<double>(kLargest)) {
    fail(fmt::format("{} are more elements than are priced",
                     tidemark::quoted_excerpt(std::string(whole))),
         kExample);
  }
  return found;
}

Words Reader::words() const {
  Words result;
  std::istringstream stream(text_);
  stream >> result.name;
  for (std::string word; stream >> word;) {
    const bool eight_bits = word == "fp8_e4m3" || word == "fp8_e5m2";
    const auto named = [&](DType type) {
      return name_of(type) == word || (type == DType::kFloat8 && eight_bits);
    };
    constexpr std::array kTypes{DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kBFloat16,
                                DType::kFloat8};
    const auto* type = std::find_if(kTypes.begin(), kTypes.end(), named);
    const std::size_t equals = word.find('=');
    if (type != kTypes.end() || word == "tf32") {
      if (result.typed)
        fail(fmt::format("{} is a second type", tidemark::quoted_excerpt(word)), kExample);
      result.typed = true;
      result.tf32 = word == "tf32";
      result.dtype = result.tf32 ? DType::kFloat32 : *type;
    } else if (word == "causal") {
      result.causal = true;
    } else if (word == "backward") {
      result.backward = true;
    } else if (equals != std::string::npos) {
      constexpr std::array<std::string_view, 6> kOptions{"stride",   "padding", "groups",
                                                         "dilation", "keys",    "kernel"};
      const std::string key = word.substr(0, equals);
      const std::optional<std::int64_t> value = number(word.substr(equals + 1));
      if (std::find(kOptions.begin(), kOptions.end(), key) == kOptions.end() || !value) {
        fail(fmt::format("{} is no option", tidemark::quoted_excerpt(word)),
             "conv 32x64x56x56 128x3x3 stride=2 padding=1 groups=1 fp16");
      }
      result.options.emplace_back(key, *value);
    } else {
      result.sizes.push_back(sizes(word));
    }
  }
  return result;
}

// Adds the operator to the builder and returns its result.
class Maker {
 public:
  Maker(const Reader& reader, const Words& words, ModelBuilder& builder)
      : reader_(reader), words_(words), b_(builder) {}

  TensorId make();

 private:
  // Arguments are parameters, so that backward makes their gradients.
  TensorId argument(std::string_view name, const Sizes& sizes) {
    Shape shape;
    for (const std::int64_t size : sizes)
      shape.push_back(size);
    return b_.parameter(name, shape);
  }
  // Returns the sizes, which have to be `lists` with so many numbers each.
  void expect(std::vector<std::size_t> counts, std::string_view example) const {
    bool matches = words_.sizes.size() == counts.size();
    for (std::size_t i = 0; matches && i < counts.size(); ++i)
      matches = words_.sizes[i].size() == counts[i];
    if (!matches) reader_.fail("its sizes do not have the form that it takes", example);
  }
  // Fails at an option that is given twice or that the operator does not take: the price would be
  // that of another operator.
  void check_options(std::string_view taken) const;
  TensorId linear();
  TensorId matmul();
  TensorId bmm();
  TensorId convolution();
  TensorId attention();
  TensorId rows();
  TensorId image();
  TensorId elementwise();

  const Reader& reader_;
  const Words& words_;
  ModelBuilder& b_;
};

void Maker::check_options(std::string_view taken) const {
  std::vector<std::string> given;
  if (words_.causal) given.emplace_back("causal");
  for (const auto& [key, value] : words_.options)
    given.push_back(key);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string& option = given[i];
    if (taken.find(fmt::format(" {} ", option)) == std::string_view::npos) {
      const std::string list(taken.substr(0, taken.find_last_not_of(' ') + 1));
      reader_.fail(
          fmt::format("{} takes no option {}{}", words_.name, tidemark::quoted_excerpt(option),
                      list.empty() ? "" : fmt::format("; it takes{}", list)),
          kExample);
    }
    if (std::count(given.begin(), given.end(), option) > 1) {
      reader_.fail(fmt::format("the option {} is given twice", tidemark::quoted_excerpt(option)),
                   kExample);
    }
  }
}

TensorId Maker::linear() {
  expect({3}, kExample);
  const Sizes& s = words_.sizes[0];
  return b_.linear_with(argument("x", {s[0], s[2]}), argument("weight", {s[1], s[2]}));
}

// M x N x K, or B x M x N x K of a batch.
TensorId Maker::matmul() {
  const bool batched = words_.sizes.size() == 1 && words_.sizes.front().size() == 4;
  return batched ? bmm() : linear();
}

TensorId Maker::bmm() {
  if (words_.dtype == DType::kFloat8) {
    reader_.fail("fp8 is a type of single products only: torch._scaled_mm takes no batch",
                 "linear 4096x4096x4096 fp8");
  }
  expect({4}, "bmm 64x1024x1024x128 fp16");
  const Sizes& s = words_.sizes[0];
  return b_.add("bmm", {argument("a", {s[0], s[1], s[3]}), argument("b", {s[0], s[3], s[2]})});
}

TensorId Maker::convolution() {
  constexpr std::string_view kConvolution = "conv 32x64x56x56 128x3x3 stride=2 padding=1 fp16";
  expect({4, 3}, kConvolution);
  const Sizes& image = words_.sizes[0];
  const Sizes& filter = words_.sizes[1];
  const std::int64_t groups = reader_.option(words_, "groups", 1);
  const std::int64_t stride = reader_.option(words_, "stride", 1);
  const std::int64_t dilation = reader_.option(words_, "dilation", 1);
  const std::int64_t padding = reader_.option(words_, "padding", filter[1] / 2);
  const std::int64_t reach = std::max(filter[1], filter[2]) - 1;
  if (groups < 1 || image[1] % groups != 0 || filter[0] % groups != 0)
    reader_.fail(fmt::format("{} groups do not divide its channels", groups), kConvolution);
  if (stride < 1 || dilation < 1) reader_.fail("stride and dilation are at least 1", kConvolution);
  if (std::min(image[2], image[3]) + 2 * padding <= reach * dilation)
    reader_.fail("the filter is larger than the image", kConvolution);
  const TensorId weight = argument("weight", {filter[0], image[1] / groups, filter[1], filter[2]});
  return b_.add(
      "conv2d", {argument("x", image), weight, TensorId()},
      {{"stride", stride}, {"padding", padding}, {"dilation", dilation}, {"groups", groups}});
}

TensorId Maker::attention() {
  expect({4}, "attention 8x32x2048x128 bf16 causal");
  const Sizes& s = words_.sizes[0];
  const std::int64_t keys = reader_.option(words_, "keys", s[2]);
  if (keys < 1) reader_.fail("there is at least one key", "attention 8x32x2048x128 keys=512");
  const Sizes others{s[0], s[1], keys, s[3]};
  return b_.attention(argument("q", s), argument("k", others), argument("v", others),
                      AttentionKind::kFlash, words_.causal, 0, {});
}

TensorId Maker::rows() {
  if (words_.sizes.size() != 1) reader_.fail("expected one list of sizes", "softmax 4096x4096");
  const TensorId x = argument("x", words_.sizes[0]);
  if (words_.name == "softmax") return b_.softmax(x);
  if (words_.name == "layer_norm") return b_.layer_norm("norm", x);
  if (words_.name == "rms_norm") return b_.rms_norm("norm", x, false);
  return b_.add("log_softmax", {x}, {{"axis", std::int64_t{-1}}});
}

TensorId Maker::image() {
  expect({4}, "batch_norm 32x64x56x56 fp16");
  const TensorId x = argument("x", words_.sizes[0]);
  if (words_.name == "batch_norm") return b_.batch_norm("norm", x);
  const std::int64_t kernel = reader_.option(words_, "kernel", 2);
  if (kernel < 1 || kernel > std::min(words_.sizes[0][2], words_.sizes[0][3]))
    reader_.fail("the window is larger than the image", "max_pool 32x64x56x56 kernel=2");
  return b_.max_pool2d(x, kernel,
                       std::max<std::int64_t>(reader_.option(words_, "stride", kernel), 1), 0);
}

TensorId Maker::elementwise() {
  if (words_.sizes.size() != 1) reader_.fail("expected one list of sizes", "add 4096x4096 fp16");
  const TensorId x = argument("x", words_.sizes[0]);
  if (words_.name == "mul") return b_.multiply(x, argument("y", words_.sizes[0]));
  if (words_.name == "dropout") return b_.dropout(x, 0.1);
  if (words_.name == "copy") return b_.add("clone", {x});
  if (words_.name == "add" || words_.name == "elementwise")
    return b_.add_tensors(x, argument("y", words_.sizes[0]));
  return b_.activation(words_.name, x);
}

struct Kind {
  std::string_view name;
  TensorId (Maker::*make)();
  std::string_view options = {};  // options that it takes, with a space before and after each
  bool in_fp8 = false;            // whether PyTorch computes it in fp8
};

TensorId Maker::make() {
  static constexpr std::array kKinds{
      Kind{"linear", &Maker::linear, {}, true},
      Kind{"matmul", &Maker::matmul, {}, true},
      Kind{"gemm", &Maker::matmul, {}, true},
      Kind{"bmm", &Maker::bmm, {}, true},
      Kind{"conv", &Maker::convolution, " stride padding dilation groups "},
      Kind{"attention", &Maker::attention, " keys causal "},
      Kind{"softmax", &Maker::rows},
      Kind{"log_softmax", &Maker::rows},
      Kind{"layer_norm", &Maker::rows},
      Kind{"rms_norm", &Maker::rows},
      Kind{"batch_norm", &Maker::image},
      Kind{"max_pool", &Maker::image, " kernel stride "},
      Kind{"elementwise", &Maker::elementwise},
      Kind{"add", &Maker::elementwise},
      Kind{"mul", &Maker::elementwise},
      Kind{"gelu", &Maker::elementwise},
      Kind{"relu", &Maker::elementwise},
      Kind{"silu", &Maker::elementwise},
      Kind{"dropout", &Maker::elementwise},
      Kind{"copy", &Maker::elementwise}};
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) {
    if (kind.name == words_.name) {
      check_options(kind.options);
      if (words_.dtype == DType::kFloat8 && !kind.in_fp8)
        reader_.fail("fp8 is a type of matrix products only", "linear 4096x4096x4096 fp8");
      return (this->*kind.make)();
    }
    names.emplace_back(kind.name);
  }
  reader_.fail(fmt::format("{} is none of {}{}", tidemark::quoted_excerpt(words_.name),
                           fmt::join(names, ", "), did_you_mean(words_.name, names)),
               kExample);
}

}  // namespace
}  // namespace operator_text_detail

OperatorText read_operator(const std::string& text, const Location& where) {
  const operator_text_detail::Reader reader(text, where);
  const operator_text_detail::Words words = reader.words();
  ModelBuilder builder("operator", words.dtype);
  builder.set_output(operator_text_detail::Maker(reader, words, builder).make());
  builder.set_samples(1, 0);
  OperatorText result{
      .text = text,
      .graph = differentiate(builder.finish(), *find_framework("torch-2.4-cuda"), {}),
      .backward = words.backward};
  for (Operator& op : result.graph.operators) {
    const bool product =
        op.work.op_class == OperatorClass::kMatmul || is_convolution(op.work.op_class);
    if (words.tf32 && product) op.work.dtype = DType::kTf32;
    // torch._scaled_mm returns bf16 here as in training, not the type of its operands.
    if (product && op.work.dtype == DType::kFloat8)
      op.work.written = bytes_of(DType::kBFloat16, Elements(op.work.written.count));
  }
  return result;
}

}  // namespace tidemark
