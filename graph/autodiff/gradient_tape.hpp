// The state of a differentiation: the gradients that wait for each node, and who else holds them.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/autodiff/differentiate_options.hpp"
#include "graph/autodiff/stage_boundary.hpp"
#include "graph/ir/graph.hpp"
#include "graph/ir/training_graph.hpp"
#include "graph/operators/backward_builder.hpp"

namespace tidemark {

class GradientTape final : public BackwardTape {
 public:
  GradientTape(const Graph& graph, const FrameworkRules& rules,
               const DifferentiateOptions& options);
  [[nodiscard]] TrainingGraph run();
  // The storages of the transfers with other chunks, after run().
  [[nodiscard]] const StageTransfers& transfers() const { return transfers_; }

  [[nodiscard]] const std::optional<Tensor>& gradient_of(TensorId id) const override {
    return pending_[id];
  }
  [[nodiscard]] Tensor saved(NodeId node, std::string_view name) const override;
  [[nodiscard]] Tensor create(std::string_view name, const Shape& shape, DType dtype) override;
  [[nodiscard]] Tensor create_temporary(std::string_view name, const Shape& shape,
                                        DType dtype) override;
  [[nodiscard]] Tensor create_workspace(std::string_view name, const Shape& shape,
                                        DType dtype) override;
  void launch(const BackwardKernel& kernel) override;
  void release_incoming_gradient() override { incoming_until_ = part_->back(); }
  void release_saved() override { saved_until_ = part_->back(); }
  void add_result(TensorId input, const Tensor& gradient) override {
    results_.emplace_back(input, gradient);
  }
  void hand_on_results() override { handed_on_ = results_.size(); }
  void keep_gradient(const Tensor& gradient) override {
    kept_gradients_.push_back({gradient.storage, part_->back()});
  }

 private:
  [[nodiscard]] StorageId add_temporary(Bytes bytes);
  void emit_forward(NodeId id);
  void save_operands(NodeId id, const NodeView& view, BackwardKernel& kernel);
  [[nodiscard]] StorageId content_of(StorageId storage) const;
  void recompute(NodeId maker);
  void recompute_for(NodeId reader);
  void issue_early();
  [[nodiscard]] bool are_independent(OperatorId a, OperatorId b) const;
  void emit_root_gradient();
  void emit_backward(NodeId id);
  void release_output_gradients(NodeId id);
  void deliver_all(std::span<const std::pair<TensorId, Tensor>> results);
  void deliver(TensorId target, const Tensor& gradient);
  void hold_summands(std::span<const StorageId> summands, OperatorId last_sum);
  [[nodiscard]] Tensor add_gradients(const Tensor& old, const Tensor& added);
  [[nodiscard]] bool is_shared(TensorId leaf) const;
  void accumulate_leaf(ParameterId id);
  void hold_node(NodeId id, OperatorId last);
  void count_uses();
  void hold_content(TensorId tensor, OperatorId until);
  void find_creators();
  [[nodiscard]] TensorId returned_logits() const;
  void hold_variables(OperatorId end);
  [[nodiscard]] std::vector<TensorId> named_outputs() const;
  [[nodiscard]] std::vector<StorageId> saved_for_other_outputs() const;
  [[nodiscard]] OperatorId forward_until(std::span<const TensorId> made) const;
  void keep_outputs();
  void emit_ends();
  [[nodiscard]] bool is_differentiable(const Node& node) const;
  void transfer(CollectiveKind kind, const StageBoundary::Neighbour& other, int tag,
                const Tensor& tensor);
  void receive_activations();
  void send_activations();
  void receive_gradients();
  void send_gradients();
  void hold_transfers();
  void hold_root_gradients();

  const Graph& graph_;
  const FrameworkRules& rules_;
  const DifferentiateOptions& options_;
  TrainingGraph training_;
  StageTransfers transfers_;

  struct SavedBy {  // operands that one node keeps for its backward
    std::vector<StorageId> storages;
    std::vector<std::pair<std::string_view, Tensor>> extras;
    std::vector<NodeId> recomputed;  // nodes whose outputs backward recomputes for this one
  };
  IdVector<NodeId, SavedBy> saved_;
  std::vector<StorageId> contexts_;                    // SavedSet::context, each once
  OperatorId kept_from_;                               // keep_outputs(); invalid without it
  IdVector<NodeId, OperatorId> forward_operator_;      // last kernel issued at or before the node
  IdVector<TensorId, std::optional<Tensor>> pending_;  // gradients that wait for their node
  IdVector<TensorId, int> uses_left_;                  // gradients still to come of each parameter
  IdVector<StorageId, int> references_;                // pending gradients that share a storage
  IdVector<NodeId, char> reached_;                     // whether backward reaches the node
  IdVector<StorageId, NodeId> recomputed_by_;   // the node that recomputes the storage in backward
  IdVector<StorageId, StorageId> recomputed_;   // the storage that has its content in backward
  IdVector<StorageId, OperatorId> created_by_;  // find_creators(); empty until then
  // The parameter of a leaf; a view of a parameter is no leaf.
  IdVector<TensorId, ParameterId> parameter_;
  using Results = std::vector<std::pair<TensorId, Tensor>>;
  Results results_;            // outputs of the running node
  std::size_t handed_on_ = 0;  // how many of them are handed on before the others
  // Gradients of leaves that are no parameters, and the operators after which they are complete.
  std::vector<std::pair<StorageId, OperatorId>> kept_gradients_;
  NodeId current_;
  // Operators of the running node after which its incoming gradient and its saved tensors are
  // released; invalid: after its last.
  OperatorId incoming_until_;
  OperatorId saved_until_;
  std::vector<OperatorId>* part_ = nullptr;  // the part to which operators are appended
  Phase phase_ = Phase::kForward;
};

}  // namespace tidemark
