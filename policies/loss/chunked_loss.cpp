// Losses of a language model in chunks of its tokens.
#include <array>

#include "policies/loss/entries.hpp"
#include "policies/loss/replace_loss.hpp"

namespace tidemark {
namespace chunked_loss_detail {
namespace {

class ChunkedLoss final : public ForwardRewrite {
 public:
  ChunkedLoss(std::string_view name, ChunkKind kind, std::int64_t chunks)
      : name_(name), kind_(kind), chunks_(chunks) {}
  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] bool acts_in_evaluation(bool computes_loss) const override { return computes_loss; }
  [[nodiscard]] ForwardStage stage() const override { return ForwardStage::kFuse; }
  [[nodiscard]] Graph apply(const Graph& graph, const RewriteContext& context) const override {
    return context.computes_loss ? replace_loss(graph, kind_, chunks_, name_) : graph;
  }

 private:
  std::string_view name_;
  ChunkKind kind_;
  std::int64_t chunks_;
};

}  // namespace
}  // namespace chunked_loss_detail

const PolicyEntry& chunked_loss_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "chunked_loss",
      .kind = "forward rewrite",
      .summary = "head and cross-entropy of a language model, chunk by chunk of its tokens",
      .source =
          "torchtune's losses (kept); litgpt's in Lightning Fabric (kept_fp32); "
          "torch.utils.checkpoint (checkpointed); Liger's idea in PyTorch's operators (fused)",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        static constexpr std::array<std::string_view, 4> kKinds = {"checkpointed", "kept", "fused",
                                                                   "kept_fp32"};
        constexpr std::array kMeaning = {ChunkKind::kCheckpointed, ChunkKind::kKept,
                                         ChunkKind::kFused, ChunkKind::kKeptFp32};
        const auto chunks = d.optional<std::int64_t>("chunks", 8, between(1, 65536));
        const std::string word = d.optional_word("kind", kKinds, kKinds[0]);
        d.finish();
        std::size_t kind = 0;
        while (kKinds.at(kind) != word)
          ++kind;
        return std::make_unique<chunked_loss_detail::ChunkedLoss>("chunked_loss", kMeaning.at(kind),
                                                                  chunks);
      }};
  return kEntry;
}

const PolicyEntry& fused_loss_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "fused_loss",
      .kind = "forward rewrite",
      .summary = "head and cross-entropy by the kernels of a library, which keep no logits",
      .source =
          "Liger-Kernel's fused linear cross-entropy; Wijmans et al. 2024 (cut cross-entropy)",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        static constexpr std::array<std::string_view, 2> kKinds = {"liger", "cut_cross_entropy"};
        std::string word;
        if (d.value().is_scalar()) {  // - fused_loss: liger
          word = d.value().scalar;
          if (word != kKinds[0] && word != kKinds[1]) {
            d.fail("expected liger or cut_cross_entropy, found '" + word + "'");
          }
        } else {
          word = d.optional_word("kind", kKinds, kKinds[0]);
          d.finish();
        }
        const ChunkKind kind = word == kKinds[0] ? ChunkKind::kLiger : ChunkKind::kCut;
        return std::make_unique<chunked_loss_detail::ChunkedLoss>("fused_loss", kind, 0);
      }};
  return kEntry;
}

}  // namespace tidemark
