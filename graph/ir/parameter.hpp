// The parameters of a model, trained and frozen, and what training keeps for each.
#pragma once

#include <cstdint>
#include <string>

#include "graph/core/ids.hpp"
#include "graph/ir/dtype.hpp"
#include "graph/ir/storage.hpp"
#include "graph/ir/tensor.hpp"

namespace tidemark {

// The part of a parameter that this rank holds: the `index`-th of `count` equal ones.
struct ParameterShard {
  int index = 0;
  int count = 1;
};

struct Parameter {
  std::string name;  // "h.3.attn.c_attn.weight"
  LayerId layer;
  Shape shape;  // shape of the whole parameter; empty where unknown
  DType dtype = DType::kFloat32;
  Elements elements;    // elements of the whole parameter
  bool trained = true;  // frozen otherwise
  TensorId tensor;      // tensor of the forward graph
  StorageId storage;    // the storage that forward and backward read; its home is the parameter's
  ParameterShard shard;

  // Invalid where backward makes no gradient: the parameter is frozen or the loss does not depend
  // on it.
  StorageId gradient;
  DType gradient_dtype = DType::kFloat32;

  // The storage that the optimizer changes: `storage`, or a copy of it where updates are delayed by
  // a step.
  StorageId updated;
  // The processor that updates the parameter and holds its optimizer state. On the host, parameters
  // of one group are updated by one operator.
  Executor updated_by = Executor::kDevice;
  int update_group = 0;
  Tier state_home = Tier::kDevice;

  // Elements of one rank's shard; the last one is padded: ceil(elements / count).
  [[nodiscard]] Elements shard_elements() const {
    return Elements((elements.count + shard.count - 1) / shard.count);
  }
};

// Counts the elements of all parameters, and of the trained ones.
[[nodiscard]] Elements parameter_elements(const IdVector<ParameterId, Parameter>& parameters);
[[nodiscard]] Elements trained_elements(const IdVector<ParameterId, Parameter>& parameters);

}  // namespace tidemark
