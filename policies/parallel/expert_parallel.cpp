// Expert parallelism: the experts of a mixture lie on several data ranks.
#include "graph/rewrite/partition/divide_experts.hpp"
#include "policies/parallel/entries.hpp"
#include "policies/plan/other_sizes.hpp"

namespace tidemark {
namespace expert_parallel_detail {
namespace {

class ExpertParallel final : public ForwardRewrite {
 public:
  explicit ExpertParallel(ExpertOptions options) : options_(std::move(options)) {}
  [[nodiscard]] std::string_view name() const override { return "expert_parallel"; }
  [[nodiscard]] ForwardStage stage() const override { return ForwardStage::kExpert; }
  [[nodiscard]] Graph apply(const Graph& graph, const RewriteContext& /*context*/) const override {
    return options_.ranks == 1 ? graph : divide_experts(graph, options_);
  }

 private:
  ExpertOptions options_;
};

}  // namespace
}  // namespace expert_parallel_detail

const PolicyEntry& expert_parallel_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "expert_parallel",
      .kind = "forward rewrite",
      .summary =
          "the experts of a mixture lie on several data ranks; tokens go to them and back by "
          "all-to-alls",
      .source = "Megatron-LM's all-to-all dispatcher; Lepikhin et al. 2020",
      .decode = [](const Decoder& d, const RewriteContext& context) -> AnyPolicy {
        ExpertOptions options{.ranks = d.required<int>("size", at_least(1)),
                              .path = "policies.expert_parallel.size"};
        options.capacity_factor = d.maybe<double>("capacity_factor", between(0.01, 1000));
        options.imbalance = d.optional<double>("imbalance", 0, between(0, 1000));
        if (options.capacity_factor && options.imbalance > 0) {
          d.fail_at("imbalance",
                    "imbalance says how many rows a rank receives, and capacity_factor pads them "
                    "to a fixed number; leave one of them out");
        }
        options.divides = ranks_to_divide(context, MeshDimension::kExpert, options.ranks);
        d.finish();
        return std::make_unique<expert_parallel_detail::ExpertParallel>(std::move(options));
      },
      .mesh = [](const Decoder& d,
                 MeshRequest& request) { request.ask(MeshDimension::kExpert, d, at_least(1)); }};
  return kEntry;
}

}  // namespace tidemark
