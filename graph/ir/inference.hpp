// Infers the outputs of a node by its family's shape rule.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "graph/ir/graph.hpp"

namespace tidemark {

// A node that is being added: its inputs are known, its outputs are created here.
class Inference {
 public:
  Inference(Graph& graph, NodeId node) : graph_(graph), node_(node) {}

  [[nodiscard]] const Attributes& attributes() const { return graph_.nodes[node_].attributes; }
  [[nodiscard]] std::string_view family_name() const;
  [[nodiscard]] int family_variant() const;
  [[nodiscard]] std::size_t input_count() const { return graph_.nodes[node_].inputs.size(); }
  [[nodiscard]] bool has_input(std::size_t index) const;
  [[nodiscard]] const Tensor& input(std::size_t index) const;  // fails when absent

  // Creates a fresh contiguous output. It requires a gradient when any floating input does.
  void create(Shape shape, DType dtype) { create(shape, dtype, contiguous_strides(shape)); }
  // Creates an output with its axes in another order in memory; `strides` are dense.
  void create(Shape shape, DType dtype, Strides strides);
  // Makes an output that shares the storage of an input.
  void view(std::size_t input_index, Shape shape, Strides strides);
  // Makes an input, changed in place, the output.
  void in_place(std::size_t input_index);
  // Creates a scalar output whose allocation has room for `elements`: losses resize what they
  // reduced.
  void create_scalar_in(Elements elements, DType dtype);
  // Gives the storage of the last output a purpose of its own.
  void set_role(Role role);
  // Makes the last output one that autograd follows, or does not, whatever the inputs are.
  void follow_gradient(bool follows);
  // Throws UserError: operator, layer, the problem and the shapes of all inputs.
  [[noreturn]] void fail(const std::string& problem) const;
  void require(bool holds, const char* problem) const {
    if (!holds) fail(problem);
  }
  // `problem` returns the text, which is made only where it is shown: models have thousands of
  // nodes.
  template <std::invocable Problem>
  void require(bool holds, const Problem& problem) const {
    if (!holds) fail(problem());
  }

 private:
  [[nodiscard]] bool any_input_requires_grad() const;
  Graph& graph_;
  NodeId node_;
};

}  // namespace tidemark
