// Gradients that are sent in fewer bytes; see gradient_hooks.hpp.
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/compress/entries.hpp"
#include "policies/compress/gradient_hooks.hpp"
#include "policies/rewrite/precision.hpp"

namespace tidemark {
namespace compress_gradients_detail {
namespace {

constexpr std::array<std::string_view, 4> kKinds{"bf16", "fp16", "powersgd", "onebit"};
using Kind = GradientHook;
using Options = GradientHookOptions;

class CompressGradients final : public TrainingRewrite {
 public:
  explicit CompressGradients(const Options& options, std::string remark)
      : options_(options), remark_(std::move(remark)) {}
  [[nodiscard]] std::string_view name() const override { return "compress_gradients"; }
  [[nodiscard]] bool acts_in_evaluation(bool /*computes_loss*/) const override { return false; }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kCompress; }
  [[nodiscard]] std::string_view remark() const override { return remark_; }
  void apply(TrainingGraph& graph, const RewriteContext& context) const override {
    if (context.mesh.replicas() == 1) return;
    if (hook_gradients(graph, options_, context.mesh.replicas()) || graph.trained.empty()) return;
    throw UserError({}, "policies.compress_gradients",
                    "compresses the buckets of data_parallel, and here another policy reduces the "
                    "gradients; fsdp takes reduce_dtype: bf16, zero sends the type of its "
                    "gradients");
  }

 private:
  Options options_;
  std::string remark_;
};

std::string remark_for(const Options& options, const RewriteContext& context) {
  if (context.device != nullptr && context.mesh.replicas() == 1) {
    return "compress_gradients saves nothing: one data rank sends no gradients";
  }
  const bool casts = options.kind == Kind::kBf16 || options.kind == Kind::kFp16;
  if (casts) {
    const bool narrow = context.precision != nullptr && bits_of(context.precision->gradients) <= 16;
    return narrow ? "compress_gradients saves no bytes on the link: gradients have 16 bits already"
                  : "";
  }
  return options.kind == Kind::kOneBit ? "compress_gradients: onebit saves no memory: the errors "
                                         "of both ends are kept in fp32"
         : options.error_feedback
             ? "compress_gradients: powersgd saves no memory: the error of each bucket is kept"
             : "";
}

}  // namespace
}  // namespace compress_gradients_detail

const PolicyEntry& compress_gradients_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "compress_gradients",
      .kind = "training rewrite",
      .summary =
          "sends the buckets of data_parallel as 16-bit copies, as low-rank factors (PowerSGD) or "
          "as "
          "signs; the errors that it keeps take memory",
      .source = "PyTorch DDP communication hooks; Vogels et al. 2019; Tang et al. 2021",
      .decode = [](const Decoder& d, const RewriteContext& context) -> AnyPolicy {
        using compress_gradients_detail::CompressGradients;
        using compress_gradients_detail::kKinds;
        using compress_gradients_detail::Kind;
        using compress_gradients_detail::Options;
        using compress_gradients_detail::remark_for;
        Options options;
        const std::string word = d.optional_word("kind", kKinds, "bf16");
        for (std::size_t i = 0; i < kKinds.size(); ++i) {
          if (kKinds[i] == word) options.kind = static_cast<Kind>(i);
        }
        for (const std::string_view key : {"rank", "min_compression_rate", "error_feedback"}) {
          if (options.kind != Kind::kPowerSgd && d.has(key))
            d.fail_at(key, fmt::format("only kind: powersgd has it, and this is {}", word));
        }
        options.rank = d.optional<std::int64_t>("rank", options.rank, between(1, 1024));
        options.min_compression_rate =
            d.optional<double>("min_compression_rate", options.min_compression_rate, at_least(1));
        options.error_feedback = d.optional<bool>("error_feedback", options.error_feedback);
        d.finish();
        return std::make_unique<CompressGradients>(options, remark_for(options, context));
      }};
  return kEntry;
}

}  // namespace tidemark
