// Lowers the precision of blocks of the model, as cheaply as meets a budget of memory.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policies/plan/rewrite.hpp"

namespace tidemark {

class AdaptivePrecision final : public ForwardRewrite {
 public:
  AdaptivePrecision(std::vector<DType> allowed, std::optional<Bytes> budget,
                    std::string remark = {})
      : allowed_(std::move(allowed)), budget_(budget), remark_(std::move(remark)) {}
  [[nodiscard]] std::string_view remark() const override { return remark_; }
  // Comes after torch.autocast of the whole model and fp8's linear layers.
  [[nodiscard]] std::string_view name() const override { return "precision_by_block"; }
  [[nodiscard]] ForwardStage stage() const override { return ForwardStage::kPrecision; }
  [[nodiscard]] std::optional<Bytes> budget() const override { return budget_; }
  [[nodiscard]] bool set_budget(Bytes budget) override {
    budget_ = budget;
    return true;
  }
  // Without trials of whole steps nothing is lowered.
  [[nodiscard]] Graph apply(const Graph& graph, const RewriteContext& context) const override;

  // Returns the model with the types that were chosen, and adds a sentence about them. The cost of
  // a type is what it rounds off: multiply-adds of a block's linear layers and convolutions times
  // the type's unit round-off. `peak`: live bytes of a step of the model with such a forward graph.
  // `capacity`: the budget where the policy names none.
  [[nodiscard]] Graph choose(const Graph& graph, const RewriteContext& context, Bytes capacity,
                             const std::function<Bytes(const Graph&)>& peak,
                             std::vector<std::string>& notes) const;

 private:
  std::vector<DType> allowed_;  // narrower than the model computes in, widest first
  std::optional<Bytes> budget_;
  std::string remark_;
};

}  // namespace tidemark
