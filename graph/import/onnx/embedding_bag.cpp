#include "graph/import/onnx/embedding_bag.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#if TIDEMARK_READS_ONNX
#include "graph/import/onnx/onnx.pb.h"

namespace tidemark {
namespace embedding_bag_detail {
namespace {

using Makers = std::map<std::string_view, const onnx_file::NodeProto*, std::less<>>;

// Returns the node of the body that makes operand `operand` of `node`, if it is an `op`.
const onnx_file::NodeProto* maker(const Makers& makers, const onnx_file::NodeProto& node,
                                  int operand, std::string_view op) {
  if (operand >= node.input_size()) return nullptr;
  const auto found = makers.find(node.input(operand));
  return found != makers.end() && found->second->op_type() == op ? found->second : nullptr;
}

std::string_view mode_of(std::string_view reduction) {
  if (reduction == "ReduceSum") return "sum";
  if (reduction == "ReduceMean") return "mean";
  return reduction == "ReduceMax" ? "max" : std::string_view();
}

bool only_counts(const OnnxNode& node) {
  static constexpr std::string_view kOps[] = {"Concat",    "Slice",    "Shape", "Gather",
                                              "Unsqueeze", "Constant", "Cast"};
  return node.domain.empty() &&
         std::find(std::begin(kOps), std::end(kOps), node.op) != std::end(kOps);
}

bool is_bag(const OnnxNode& node) {
  return node.op == "EmbeddingBag";
}

void take_offsets(OnnxModel& model) {
  IdVector<OnnxValueId, OnnxNodeId> maker(model.names.size());
  for (OnnxNodeId id : ids_of(model.nodes)) {
    for (OnnxValueId output : model.nodes[id].outputs) {
      if (output.valid()) maker[output] = id;
    }
  }
  for (OnnxNode& node : model.nodes) {
    if (!is_bag(node) || !node.has_input(2)) continue;
    const OnnxNodeId ends = maker[node.inputs[2]];
    if (ends.valid() && model.nodes[ends].op == "Concat" && model.nodes[ends].has_input(0)) {
      node.inputs[2] = model.nodes[ends].inputs.front();
    } else {
      node.attributes.emplace_back("include_last_offset", std::int64_t{1});
    }
  }
}

// From the last node to the first: what nothing reads any more, and only counted, goes.
void remove_counts(OnnxModel& model) {
  IdVector<OnnxValueId, char> read(model.names.size(), 0);
  for (OnnxValueId output : model.outputs) {
    if (output.valid()) read[output] = 1;
  }
  std::vector<OnnxNode> kept;
  for (std::size_t i = model.nodes.size(); i-- > 0;) {
    OnnxNode& node = model.nodes[OnnxNodeId(i)];
    const bool is_read = std::any_of(node.outputs.begin(), node.outputs.end(),
                                     [&](OnnxValueId v) { return v.valid() && read[v] != 0; });
    if (!is_read && only_counts(node)) continue;
    for (OnnxValueId input : node.inputs) {
      if (input.valid()) read[input] = 1;
    }
    kept.push_back(std::move(node));
  }
  model.nodes = {};
  for (auto node = kept.rbegin(); node != kept.rend(); ++node)
    model.nodes.push_back(std::move(*node));
}

}  // namespace
}  // namespace embedding_bag_detail

std::optional<OnnxEmbeddingBag> embedding_bag_of(const onnx_file::NodeProto& node) {
  using namespace embedding_bag_detail;  // NOLINT: the names of this file
  if (node.op_type() != "Loop" || node.output_size() != 1) return std::nullopt;
  const auto body = std::find_if(node.attribute().begin(), node.attribute().end(),
                                 [](const auto& attribute) { return attribute.name() == "body"; });
  if (body == node.attribute().end() || !body->has_g()) return std::nullopt;
  Makers makers;
  for (const onnx_file::NodeProto& inner : body->g().node()) {
    for (const std::string& output : inner.output())
      makers[output] = &inner;
  }
  for (const onnx_file::NodeProto& reduction : body->g().node()) {
    const std::string_view mode = mode_of(reduction.op_type());
    if (mode.empty()) continue;
    const onnx_file::NodeProto* rows = maker(makers, reduction, 0, "Gather");
    const onnx_file::NodeProto* bag = rows == nullptr ? nullptr : maker(makers, *rows, 1, "Slice");
    const onnx_file::NodeProto* begin =
        bag == nullptr ? nullptr : maker(makers, *bag, 1, "Unsqueeze");
    const onnx_file::NodeProto* end =
        begin == nullptr ? nullptr : maker(makers, *begin, 0, "Gather");
    if (end == nullptr || end->input_size() == 0) return std::nullopt;
    OnnxEmbeddingBag found{.weight = rows->input(0),
                           .indices = bag->input(0),
                           .ends = end->input(0),
                           .mode = std::string(mode)};
    for (const std::string& name : {found.weight, found.indices, found.ends}) {
      if (name.empty() || makers.contains(name)) return std::nullopt;
    }
    return found;
  }
  return std::nullopt;
}

void take_offsets_of_bags(OnnxModel& model) {
  using namespace embedding_bag_detail;  // NOLINT: the names of this file
  if (std::none_of(model.nodes.begin(), model.nodes.end(), is_bag)) return;
  take_offsets(model);
  remove_counts(model);
}

}  // namespace tidemark
#endif
