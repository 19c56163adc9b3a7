// The transfers of a pipeline's chunk, as operators of its forward and backward.
#include "graph/autodiff/gradient_tape.hpp"

namespace tidemark {

// Emits a transfer of a tensor with the chunk before or after. Compute goes on only when a send is
// over (wait_on_reqs of Megatron's p2p_communication), so that memory that was sent is free for the
// next kernel.
void GradientTape::transfer(CollectiveKind kind, const StageBoundary::Neighbour& other, int tag,
                            const Tensor& tensor) {
  const bool receives = kind == CollectiveKind::kReceive;
  const bool forward = phase_ == Phase::kForward;
  Work work{.op_class = OperatorClass::kCollective, .dtype = tensor.dtype};
  work.collective = {.kind = kind,
                     .group = MeshDimension::kPipeline,
                     .bytes = tensor.bytes(),
                     .peer = other.rank,
                     .tag = tag,
                     .blocks_compute = !receives};
  BackwardKernel kernel{.name = receives ? (forward ? "receive_activation" : "receive_gradient")
                                         : (forward ? "send_activation" : "send_gradient"),
                        .part = OperatorPart::kOther,
                        .work = work};
  (receives ? kernel.creates : kernel.reads).push_back(tensor);
  launch(kernel);
}

void GradientTape::receive_activations() {
  if (options_.boundary == nullptr) return;
  for (const TensorId id : options_.boundary->received) {
    const Tensor& tensor = graph_.tensors[id];
    transfers_.received.push_back(tensor.storage);
    transfer(CollectiveKind::kReceive, options_.boundary->before, options_.boundary->before.tag,
             tensor);
  }
}

void GradientTape::send_activations() {
  if (options_.boundary == nullptr) return;
  for (const TensorId id : options_.boundary->sent) {
    const Tensor& tensor = graph_.tensors[id];
    transfers_.sent.push_back(tensor.storage);
    transfer(CollectiveKind::kSend, options_.boundary->after, options_.boundary->after.tag, tensor);
  }
}

// Backward of a chunk that does not end in the loss starts from the gradients that come back.
void GradientTape::receive_gradients() {
  if (options_.boundary == nullptr) return;
  const StageBoundary& boundary = *options_.boundary;
  for (std::size_t i = 0; i < boundary.sent.size(); ++i) {
    const TensorId id = boundary.sent[i];
    StorageId& storage = transfers_.received_gradients.emplace_back();
    if (boundary.returns[i] == 0 || !graph_.tensors[id].requires_grad) continue;
    const Tensor& like = graph_.tensors[id];
    const Tensor gradient = create("received_gradient", like.shape, like.dtype);
    storage = gradient.storage;
    training_.storages[storage].role = Role::kCommunication;
    transfer(CollectiveKind::kReceive, boundary.after, boundary.after.tag + 1, gradient);
    pending_[id] = gradient;
    references_[gradient.storage] = 1;
  }
}

void GradientTape::send_gradients() {
  if (options_.boundary == nullptr) return;
  const StageBoundary& boundary = *options_.boundary;
  for (const TensorId id : boundary.received) {
    StorageId& storage = transfers_.sent_gradients.emplace_back();
    if (!graph_.tensors[id].requires_grad || !pending_[id]) continue;
    // A gradient may be a view of a larger tensor; what travels has the activation's size.
    Tensor gradient = graph_.tensors[id];
    gradient.storage = pending_[id]->storage;
    storage = gradient.storage;
    transfer(CollectiveKind::kSend, boundary.before, boundary.before.tag + 1, gradient);
    pending_[id].reset();
  }
}

// Holds what the schedule names in variables while a micro-batch is in flight.
void GradientTape::hold_transfers() {
  if (options_.boundary == nullptr || training_.part(PartKind::kBackward).empty()) return;
  const OperatorId end = training_.part(PartKind::kBackward).back();
  for (const TensorId id : options_.boundary->received)
    hold_content(id, end);
  if (options_.boundary->frees_outputs) return;
  for (const TensorId id : options_.boundary->sent)
    hold_content(id, end);
}

}  // namespace tidemark
