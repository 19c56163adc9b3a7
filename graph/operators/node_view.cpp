#include "graph/operators/node_view.hpp"

namespace tidemark {

std::string_view NodeView::family_name() const {
  return graph_.nodes[node_].family->name;
}

int NodeView::family_variant() const {
  return graph_.nodes[node_].family->variant;
}

bool NodeView::has_input(std::size_t index) const {
  const Node& node = graph_.nodes[node_];
  return index < node.inputs.size() && node.inputs[index].valid();
}

Work NodeView::elementwise_work(OperatorClass op_class, double flops_per_element) const {
  Work work{.op_class = op_class, .dtype = output().dtype};
  work.flops = Flops(flops_per_element * static_cast<double>(output().elements().count));
  for (std::size_t i = 0; i < input_count(); ++i) {
    if (has_input(i)) work.read += input(i).bytes();
  }
  work.channels_last = output().is_channels_last();
  for (TensorId out : graph_.nodes[node_].outputs)
    work.written += graph_.tensors[out].bytes();
  return work;
}

}  // namespace tidemark
