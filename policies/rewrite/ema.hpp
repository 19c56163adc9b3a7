// Averaged weights: a copy of the model that follows the weights by an exponential moving average.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/core/decoder.hpp"
#include "policies/plan/rewrite.hpp"

namespace tidemark {

// The ways to compute the average.
enum class EmaKind : std::uint8_t {
  kInPlace,   // ema.mul_(decay).add_(p, alpha=1 - decay), or torch._foreach_lerp_
  kSwaUtils,  // torch.optim.swa_utils.AveragedModel: ema + (p - ema) / (n + 1)
};

struct EmaOptions {
  double decay = 0.999;
  EmaKind kind = EmaKind::kInPlace;
  Tier home = Tier::kDevice;
  bool buffers = true;         // a copy of the whole module has its buffers, too
  std::optional<DType> dtype;  // type of the averages; without one that of the parameters
};

// Reads the parameters of the policy `ema`. Throws UserError.
[[nodiscard]] EmaOptions decode_ema(const Decoder& d);
// Reads the key `ema` of `training`: none | device | host. nullopt without averages.
[[nodiscard]] std::optional<EmaOptions> decode_training_ema(const Decoder& training);

class Ema final : public TrainingRewrite {
 public:
  explicit Ema(const EmaOptions& options) : options_(options) {}
  [[nodiscard]] std::string_view name() const override { return "ema"; }
  [[nodiscard]] bool acts_in_evaluation(bool /*computes_loss*/) const override { return false; }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kAverage; }
  // Adds a copy of every weight that the rank holds, present from the start, and its update behind
  // the optimizer's.
  void apply(TrainingGraph& graph, const RewriteContext& context) const override;

 private:
  EmaOptions options_;
};

}  // namespace tidemark
