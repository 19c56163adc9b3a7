// Tensor parallelism, with and without sequence parallelism, as Megatron-LM does it.
#include "graph/rewrite/partition/partition_graph.hpp"
#include "policies/parallel/entries.hpp"
#include "policies/plan/other_sizes.hpp"

namespace tidemark {
namespace tensor_parallel_detail {
namespace {

class TensorParallel final : public ForwardRewrite {
 public:
  explicit TensorParallel(PartitionOptions options) : options_(std::move(options)) {}
  [[nodiscard]] std::string_view name() const override { return "tensor_parallel"; }
  [[nodiscard]] ForwardStage stage() const override { return ForwardStage::kTensor; }
  [[nodiscard]] Graph apply(const Graph& graph, const RewriteContext& /*context*/) const override {
    return options_.ranks == 1 ? graph : partition_graph(graph, options_);
  }

 private:
  PartitionOptions options_;
};

}  // namespace
}  // namespace tensor_parallel_detail

const PolicyEntry& tensor_parallel_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "tensor_parallel",
      .kind = "forward rewrite",
      .summary =
          "cuts heads, features of feed-forward layers and the vocabulary among ranks; with "
          "sequence: true what lies between is cut by tokens",
      .source = "Megatron-LM; Shoeybi et al. 2019; Korthikanti et al. 2022",
      .decode = [](const Decoder& d, const RewriteContext& context) -> AnyPolicy {
        PartitionOptions options{.group = MeshDimension::kTensor,
                                 .ranks = d.required<int>("size", between(1, kMostRanks)),
                                 .path = "policies.tensor_parallel.size"};
        options.sequence = d.optional<bool>("sequence", false);
        options.pad_vocabulary = d.optional<bool>("pad_vocabulary", true);
        options.divides = ranks_to_divide(context, MeshDimension::kTensor, options.ranks);
        d.finish();
        return std::make_unique<tensor_parallel_detail::TensorParallel>(std::move(options));
      },
      .mesh =
          [](const Decoder& d, MeshRequest& request) {
            request.ask(MeshDimension::kTensor, d, between(1, kMostRanks));
          }};
  return kEntry;
}

}  // namespace tidemark
