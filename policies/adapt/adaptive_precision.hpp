// Lowers the precision of blocks of the model, as cheaply as meets a budget of memory.
#pragma once

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
  [[nodiscard]] bool looks_at_capacity() const override { return !budget_; }
  [[nodiscard]] bool set_budget(Bytes budget) override {
    budget_ = budget;
    return true;
  }
  // Returns the model with the types that were chosen, and notes them. The cost of a type is what
  // it rounds off: multiply-adds of a block's linear layers and convolutions times the type's unit
  // round-off. The device's capacity is the budget where the policy has none. Nothing is lowered
  // without trials of whole steps. Throws UserError for a pipeline, whose stages are no whole
  // steps.
  [[nodiscard]] Graph apply(const Graph& graph, const RewriteContext& context) const override;

 private:
  std::vector<DType> allowed_;  // narrower than the model computes in, widest first
  std::optional<Bytes> budget_;
  std::string remark_;
};

}  // namespace tidemark
