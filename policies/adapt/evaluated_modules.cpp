#include "policies/adapt/evaluated_modules.hpp"

#include <utility>

#include "graph/operators/family.hpp"

namespace tidemark {

void keep_evaluated(GraphCopy& copy, NodeId id) {
  const Node& node = copy.source().nodes[id];
  Attributes attributes = node.attributes;
  if (attributes.number("dropout") > 0) attributes.set("dropout", 0.0);
  switch (node.family->in_evaluation) {
    case InEvaluation::kSame:
      break;
    case InEvaluation::kIdentity:
      attributes.set("p", 0.0);
      break;
    case InEvaluation::kNothing: {
      std::vector<TensorId> unchanged = copy.inputs_of(id);
      unchanged.resize(node.outputs.size());
      copy.replace(id, unchanged);
      return;
    }
    case InEvaluation::kOwnKernel:
      attributes.set("evaluates", std::int64_t{1});
      break;
  }
  copy.keep(id, copy.inputs_of(id), std::move(attributes));
}

}  // namespace tidemark
