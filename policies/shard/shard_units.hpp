// The groups of parameters that are gathered and freed together: the units of FSDP.
//
//   units: blocks                            one unit per repeated block; the rest is the root
//   units: whole                             the root alone
//   units: [embed_tokens, blocks, [norm, lm_head]]   named modules; an inner list is one unit
//   trained_units: each                              modules with a trained weight are units apart
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/core/decoder.hpp"
#include "graph/ir/training_graph.hpp"
#include "hwprofiles/mesh.hpp"

namespace tidemark {

// Units of trained parameters, which may lie among frozen ones.
enum class TrainedUnits : std::uint8_t {
  kNone,  // into the unit of their module, like the frozen ones
  // Each module that holds a trained weight itself is a unit (fsdp_auto_wrap_policy in Hugging
  // Face's peft/utils/other.py).
  kEach,
  // All trained parameters are one unit around the model, which is the root; what is left outside
  // of other units is one within it (wrap_trainable_outmost in atorch's zero_optimization.py).
  kOne,
};

struct UnitOptions {
  // Modules of each unit, "blocks" standing for a unit per block; the default is {{"blocks"}}.
  std::vector<std::vector<std::string>> units{{"blocks"}};
  TrainedUnits trained = TrainedUnits::kNone;
  // Units that a policy makes itself, by layer. Such a unit has the parameters of these layers
  // alone, and not those of modules within them.
  IdVector<LayerId, std::optional<std::size_t>> own_units = {};
  // Modules whose unit stays gathered after forward.
  std::vector<std::string> keep_gathered;
};

// Reads `units`, `trained_units` and `keep_gathered`.
[[nodiscard]] UnitOptions decode_units(const Decoder& d);
// Returns the policy of a dimension as a scenario has it, for refusals: "tensor_parallel: {size:
// 2}".
[[nodiscard]] std::string policy_of(MeshDimension dimension, const Mesh& mesh);

struct ShardUnit {
  std::string name;                     // "layers.3", "root"
  std::vector<ParameterId> parameters;  // parameters in the order of registration
  bool is_root = false;
  bool spans_model = false;  // its module is the model: the root, and what is left within it
  bool kept = false;         // named by keep_gathered
  bool of_experts = false;
};

// The units of a graph, those without parameters left out.
class ShardUnits {
 public:
  // Throws UserError for a module that the model does not have. With `experts_apart` the experts of
  // a unit are one of their own, which other ranks share.
  ShardUnits(const TrainingGraph& graph, const UnitOptions& options, std::string_view policy,
             bool experts_apart = false);

  [[nodiscard]] const std::vector<ShardUnit>& all() const { return units_; }
  // Returns the unit of a module; none where its unit has no parameters.
  [[nodiscard]] std::optional<std::size_t> of(LayerId layer) const {
    return layer.valid() ? of_layer_[layer] : std::nullopt;
  }

 private:
  std::vector<ShardUnit> units_;
  IdVector<LayerId, std::optional<std::size_t>> of_layer_;
};

// The operators of a part between which a unit is in use.
struct UnitVisit {
  std::size_t first = 0;
  std::size_t last = 0;
  bool happens = false;
};
// Returns, by unit, from where to where operators of the unit's modules run in a part, or others
// that touch one of its storages; `storages`: the unit of each, if any.
[[nodiscard]] std::vector<UnitVisit> unit_visits(
    const TrainingGraph& graph, const ShardUnits& units, const std::vector<OperatorId>& part,
    const IdVector<StorageId, std::optional<std::size_t>>& storages);
// Returns the units that a part visits, in the order in which it comes to them first.
[[nodiscard]] std::vector<std::size_t> visited_units(const std::vector<UnitVisit>& visits);

}  // namespace tidemark
