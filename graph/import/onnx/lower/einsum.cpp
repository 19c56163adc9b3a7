// torch.einsum. Several operands are multiplied from left to right, two as ATen's sumproduct_pair
// does: the axes of each are ordered as [shared, own, summed], a copy where strides demand it, and
// bmm multiplies the operands, now seen as three axes. Without a summed axis the operands are
// multiplied element by element.
#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/import/onnx/onnx_lowering.hpp"

namespace tidemark {
namespace onnx_einsum {

using List = std::vector<std::int64_t>;
using Labels = std::vector<int>;  // letters; below 0 the axes of an ellipsis, the last of them -1

struct Equation {
  std::vector<Labels> operands;
  Labels result;
};

bool holds(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

[[noreturn]] void fail_equation(const OnnxLowering& l, const std::string& equation) {
  l.fail(fmt::format("the equation {} is not understood; it names each axis of an operand once",
                     tidemark::quoted_excerpt(equation)));
}

// The labels of one term. An ellipsis stands for the `hidden` axes that have no letter.
Labels labels_of(const OnnxLowering& l, const std::string& equation, std::string_view term,
                 int hidden) {
  Labels labels;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (term.substr(i, 3) == "...") {
      i += 2;
      for (int axis = hidden; axis > 0; --axis) {
        if (holds(labels, -axis)) fail_equation(l, equation);
        labels.push_back(-axis);
      }
      continue;
    }
    const auto letter = static_cast<unsigned char>(term[i]);
    if (std::isalpha(letter) == 0 || holds(labels, letter)) fail_equation(l, equation);
    labels.push_back(letter);
  }
  return labels;
}

Equation parse(OnnxLowering& l) {
  const std::string written = l.node().get<std::string>("equation", "");
  std::string text = written;
  std::erase(text, ' ');
  const std::size_t arrow = text.find("->");
  const std::string_view left = std::string_view(text).substr(0, arrow);
  Equation equation;
  int most_hidden = 0;
  for (std::size_t start = 0; start <= left.size();) {
    const std::size_t end = std::min(left.find(',', start), left.size());
    const std::string_view term = left.substr(start, end - start);
    const std::size_t operand = equation.operands.size();
    start = end + 1;
    if (!l.has(operand)) fail_equation(l, written);
    const int rank = l.shape_of_operand(operand).rank();
    const bool open = term.find("...") != std::string_view::npos;
    const int hidden = open ? rank - static_cast<int>(term.size()) + 3 : 0;
    most_hidden = std::max(most_hidden, hidden);
    equation.operands.push_back(labels_of(l, written, term, hidden));
    if (static_cast<int>(equation.operands.back().size()) != rank) {
      l.fail(fmt::format("operand {} of the equation {} has the shape {}", operand,
                         tidemark::quoted_excerpt(written),
                         to_string(l.shape_of_operand(operand))));
    }
  }
  if (equation.operands.size() != l.node().inputs.size()) fail_equation(l, written);
  if (arrow != std::string::npos) {
    equation.result = labels_of(l, written, std::string_view(text).substr(arrow + 2), most_hidden);
  } else {
    // Without an arrow: the ellipsis, and the letters that stand once, in the order of ASCII.
    for (int axis = most_hidden; axis > 0; --axis)
      equation.result.push_back(-axis);
    for (int letter = 'A'; letter <= 'z'; ++letter) {
      if (std::count(left.begin(), left.end(), static_cast<char>(letter)) == 1 &&
          std::isalpha(letter) != 0) {
        equation.result.push_back(letter);
      }
    }
  }
  for (int label : equation.result) {
    const bool known = std::any_of(equation.operands.begin(), equation.operands.end(),
                                   [&](const Labels& labels) { return holds(labels, label); });
    if (!known) fail_equation(l, written);
  }
  return equation;
}

// A tensor whose axes have names.
struct Named {
  TensorId tensor;
  Labels labels;
};

class Einsum {
 public:
  explicit Einsum(OnnxLowering& lowering) : l_(lowering) {}

  // Returns the extent of an axis; 1 when the operand does not have it.
  [[nodiscard]] std::int64_t extent(const Named& x, int label) const {
    const auto at = std::find(x.labels.begin(), x.labels.end(), label);
    return at == x.labels.end()
               ? 1
               : l_.builder().shape(x.tensor)[static_cast<int>(at - x.labels.begin())];
  }

  void permute(Named& x, const Labels& order) const {
    if (x.labels == order) return;
    List axes;
    for (int label : order)
      axes.push_back(std::find(x.labels.begin(), x.labels.end(), label) - x.labels.begin());
    x = {l_.builder().add("permute", {x.tensor}, {{"axes", axes}}), order};
  }

  // Sums the axes for which `condition` holds; they disappear.
  template <class Condition>
  void sum(Named& x, Condition condition) const {
    List axes;
    Labels rest;
    for (std::size_t i = 0; i < x.labels.size(); ++i) {
      if (condition(x.labels[i])) {
        axes.push_back(static_cast<std::int64_t>(i));
      } else {
        rest.push_back(x.labels[i]);
      }
    }
    if (axes.empty()) return;
    const Shape& shape = l_.builder().shape(x.tensor);
    const bool trivial = std::all_of(axes.begin(), axes.end(), [&](std::int64_t axis) {
      return shape[static_cast<int>(axis)] == 1;
    });
    if (trivial) {
      Shape kept;
      for (int label : rest)
        kept.push_back(extent(x, label));
      x = {l_.builder().view(x.tensor, kept), rest};
      return;
    }
    x = {l_.builder().add("sum", {x.tensor}, {{"axes", axes}, {"keepdim", std::int64_t{0}}}), rest};
  }

  // Multiplies element by element, with axes of extent 1 where an operand lacks one.
  [[nodiscard]] TensorId multiply(Named a, Named b, const Labels& result) const {
    const auto aligned = [&](Named x) {
      Labels own;
      Shape shape;
      for (int label : result) {
        if (holds(x.labels, label)) own.push_back(label);
        shape.push_back(extent(x, label));
      }
      permute(x, own);
      return own == result ? x.tensor : l_.builder().view(x.tensor, shape);
    };
    const TensorId left = aligned(std::move(a));
    return l_.builder().multiply(left, aligned(std::move(b)));
  }

  // Multiplies as ATen's sumproduct_pair.
  [[nodiscard]] TensorId product(Named a, Named b, const Labels& result,
                                 const Labels& summed) const {
    Labels shared;
    Labels left;
    Labels right;
    for (int label : result) {
      const bool in_a = extent(a, label) > 1;
      const bool in_b = extent(b, label) > 1;
      (in_a && in_b ? shared : in_a ? left : right).push_back(label);
    }
    Shape shape;
    Labels order;
    std::array<std::int64_t, 4> sizes{1, 1, 1, 1};  // shared, left, right, summed
    const auto measure = [&](const Labels& labels, std::size_t group) {
      for (int label : labels)
        sizes[group] *= std::max(extent(a, label), extent(b, label));
    };
    measure(shared, 0);
    measure(left, 1);
    measure(right, 2);
    measure(summed, 3);
    for (const Labels* labels : {&shared, &left, &right}) {
      for (int label : *labels) {
        shape.push_back(std::max(extent(a, label), extent(b, label)));
        order.push_back(label);
      }
    }
    permute(a, ordered(a, {&shared, &left, &summed, &right}));
    permute(b, ordered(b, {&shared, &summed, &right, &left}));
    ModelBuilder& builder = l_.builder();
    const TensorId rows = builder.reshape(a.tensor, {sizes[0], sizes[1], sizes[3]});
    const TensorId columns = builder.reshape(b.tensor, {sizes[0], sizes[3], sizes[2]});
    Named output{builder.view(builder.add("bmm", {rows, columns}), shape), order};
    permute(output, result);
    return output.tensor;
  }

 private:
  // Returns the operand's own labels, in the order of the groups.
  [[nodiscard]] static Labels ordered(const Named& x, std::initializer_list<const Labels*> groups) {
    Labels labels;
    for (const Labels* group : groups) {
      for (int label : *group) {
        if (holds(x.labels, label)) labels.push_back(label);
      }
    }
    return labels;
  }

  OnnxLowering& l_;
};

// Returns the product of two operands; `result` are the axes that are read afterwards.
TensorId multiplied(OnnxLowering& l, const Einsum& einsum, Named a, Named b, const Labels& result) {
  Labels summed;
  for (int label : a.labels) {
    const std::int64_t in_a = einsum.extent(a, label);
    const std::int64_t in_b = einsum.extent(b, label);
    if (in_a != in_b && in_a != 1 && in_b != 1) {
      l.fail(fmt::format("an axis of both operands is {} of one and {} of the other", in_a, in_b));
    }
    if (!holds(result, label) && in_a > 1 && in_b > 1) summed.push_back(label);
  }
  // Axes that only one operand has, but not the result, are summed before.
  const auto alone = [&](int label) { return !holds(result, label) && !holds(summed, label); };
  einsum.sum(a, alone);
  einsum.sum(b, alone);
  return summed.empty() ? einsum.multiply(a, b, result) : einsum.product(a, b, result, summed);
}

// Returns the axes that the product of `a` and operand `next` keeps: those that the result or a
// later operand has, in the order of the result, then of the operands.
Labels kept_axes(const Equation& equation, const Named& a, std::size_t next) {
  Labels kept;
  const auto keep = [&](const Labels& order) {
    for (int label : order) {
      const bool present = holds(a.labels, label) || holds(equation.operands[next], label);
      if (present && !holds(kept, label)) kept.push_back(label);
    }
  };
  keep(equation.result);
  for (std::size_t later = next + 1; later < equation.operands.size(); ++later)
    keep(equation.operands[later]);
  return kept;
}

void lower_einsum(OnnxLowering& l) {
  const Equation equation = parse(l);
  const Einsum einsum(l);
  const Labels& result = equation.result;
  Named a{l.operand(0), equation.operands[0]};
  if (equation.operands.size() == 1) {
    einsum.sum(a, [&](int label) { return !holds(result, label); });
    einsum.permute(a, result);
    return l.set(a.tensor);
  }
  for (std::size_t next = 1; next < equation.operands.size(); ++next) {
    const bool last = next + 1 == equation.operands.size();
    const Labels wanted = last ? result : kept_axes(equation, a, next);
    if (static_cast<int>(wanted.size()) > kMaxRank) l.fail("its result has too many axes");
    a = {multiplied(l, einsum, a, {l.operand(next), equation.operands[next]}, wanted), wanted};
  }
  l.set(a.tensor);
}

constexpr OnnxOperator kOperators[] = {{"Einsum", lower_einsum}};

}  // namespace onnx_einsum

std::span<const OnnxOperator> onnx_einsum_operators() {
  return onnx_einsum::kOperators;
}

}  // namespace tidemark
