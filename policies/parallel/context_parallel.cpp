// Context parallelism: each rank has a part of the positions of every sequence.
#include <array>

#include "graph/rewrite/partition/partition_graph.hpp"
#include "policies/parallel/entries.hpp"
#include "policies/plan/other_sizes.hpp"

namespace tidemark {
namespace context_parallel_detail {
namespace {

class ContextParallel final : public ForwardRewrite {
 public:
  explicit ContextParallel(PartitionOptions options) : options_(std::move(options)) {}
  [[nodiscard]] std::string_view name() const override { return "context_parallel"; }
  [[nodiscard]] ForwardStage stage() const override { return ForwardStage::kContext; }
  [[nodiscard]] Graph apply(const Graph& graph, const RewriteContext& /*context*/) const override {
    return options_.ranks == 1 ? graph : partition_graph(graph, options_);
  }

 private:
  PartitionOptions options_;
};

constexpr std::array<std::string_view, 3> kKinds = {"ring", "all_gather", "ulysses"};

ContextKind kind_of(std::string_view name) {
  if (name == "all_gather") return ContextKind::kAllGather;
  return name == "ulysses" ? ContextKind::kAllToAll : ContextKind::kRing;
}

}  // namespace
}  // namespace context_parallel_detail

const PolicyEntry& context_parallel_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "context_parallel",
      .kind = "forward rewrite",
      .summary =
          "cuts every sequence among ranks; attention passes keys and values around a ring, "
          "gathers them, or exchanges positions for heads (kind: ring, all_gather, ulysses)",
      .source = "TransformerEngine; Liu et al. 2023; Jacobs et al. 2023",
      .decode = [](const Decoder& d, const RewriteContext& context) -> AnyPolicy {
        PartitionOptions options{.group = MeshDimension::kContext,
                                 .ranks = d.required<int>("size", between(1, kMostRanks)),
                                 .path = "policies.context_parallel.size"};
        options.kind = context_parallel_detail::kind_of(
            d.optional_word("kind", context_parallel_detail::kKinds, "ring"));
        options.divides = ranks_to_divide(context, MeshDimension::kContext, options.ranks);
        d.finish();
        return std::make_unique<context_parallel_detail::ContextParallel>(std::move(options));
      },
      .mesh =
          [](const Decoder& d, MeshRequest& request) {
            request.ask(MeshDimension::kContext, d, between(1, kMostRanks));
          }};
  return kEntry;
}

}  // namespace tidemark
