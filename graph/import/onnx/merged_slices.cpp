#include "graph/import/onnx/merged_slices.hpp"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/import/onnx/onnx_uses.hpp"

namespace tidemark {
namespace merged_slices_detail {
namespace {

class Slices {
 public:
  explicit Slices(OnnxModel& model) : model_(model), uses_(model) {
    for (const OnnxInitializer& initializer : model.initializers)
      constants_[initializer.value] = &initializer.tensor;
    for (const OnnxNode& node : model.nodes) {
      const auto* value = node.find<OnnxConstant>("value");
      if (value != nullptr && !node.outputs.empty()) constants_[node.outputs.front()] = value;
    }
  }

  void run() {
    for (OnnxValueId value : ids_of(model_.names)) {
      const std::vector<OnnxNodeId> firsts = first_slices(value);
      if (firsts.size() < 2 || !all_are_cut_alike(firsts)) continue;
      for (OnnxNodeId first : firsts) {
        const std::vector<OnnxUse>& readers = uses_.readers[model_.nodes[first].outputs.front()];
        for (std::size_t i = 1; i < readers.size(); ++i)
          copied_before_.emplace(readers[i].node, first);
      }
    }
    if (!copied_before_.empty()) rewrite();
  }

 private:
  // The one axis of a Slice, where it is constant and counted from the front.
  [[nodiscard]] std::optional<std::int64_t> axis_of(OnnxNodeId id) const {
    const OnnxNode& node = model_.nodes[id];
    if (node.op != "Slice" || !node.has_input(3)) return std::nullopt;
    const auto axes = constants_.find(node.inputs[3]);
    if (axes == constants_.end() || !axes->second->known ||
        axes->second->elements() != Elements(1) || axes->second->integer() < 0) {
      return std::nullopt;
    }
    return axes->second->integer();
  }

  // The slices of a value, if they all cut one axis.
  [[nodiscard]] std::vector<OnnxNodeId> first_slices(OnnxValueId value) const {
    std::vector<OnnxNodeId> found;
    for (const OnnxUse& use : uses_.readers[value]) {
      const auto axis = use.operand == 0 ? axis_of(use.node) : std::nullopt;
      if (!axis) continue;
      if (!found.empty() && axis_of(found.front()) != axis) return {};
      found.push_back(use.node);
    }
    return found;
  }

  // Whether nothing but slices over one later axis read the results of all of them.
  [[nodiscard]] bool all_are_cut_alike(const std::vector<OnnxNodeId>& firsts) const {
    std::optional<std::int64_t> second;
    for (OnnxNodeId first : firsts) {
      const OnnxValueId result = model_.nodes[first].outputs.front();
      if (uses_.readers[result].empty() || uses_.is_output[result] != 0) return false;
      for (const OnnxUse& use : uses_.readers[result]) {
        const auto axis = use.operand == 0 ? axis_of(use.node) : std::nullopt;
        if (!axis || *axis <= *axis_of(first) || (second && second != axis)) return false;
        second = axis;
      }
    }
    return true;
  }

  void rewrite() {
    IdVector<OnnxNodeId, OnnxNode> nodes;
    for (OnnxNodeId id : ids_of(model_.nodes)) {
      OnnxNode node = model_.nodes[id];
      const auto first = copied_before_.find(id);
      if (first != copied_before_.end()) {
        OnnxNode copy = model_.nodes[first->second];
        const std::string name = fmt::format("{} for {}", model_.names[copy.outputs.front()],
                                             model_.names[node.outputs.front()]);
        copy.outputs.front() = model_.names.push_back(name);
        node.inputs[0] = copy.outputs.front();
        nodes.push_back(std::move(copy));
      }
      nodes.push_back(std::move(node));
    }
    model_.nodes = std::move(nodes);
  }

  OnnxModel& model_;
  OnnxUses uses_;
  std::map<OnnxValueId, const OnnxConstant*> constants_;
  std::map<OnnxNodeId, OnnxNodeId> copied_before_;  // first slices, by the slice that reads a copy
};

}  // namespace
}  // namespace merged_slices_detail

void split_merged_slices(OnnxModel& model) {
  merged_slices_detail::Slices(model).run();
}

}  // namespace tidemark
