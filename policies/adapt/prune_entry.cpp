// The policy `prune`.
#include <array>
#include <utility>

#include "policies/adapt/entries.hpp"
#include "policies/adapt/prune.hpp"

namespace tidemark {
namespace prune_entry_detail {
namespace {

enum class Method { kMagnitude, kStructured, kTwoOfFour };

struct PruneOptions {
  Method method = Method::kMagnitude;
  double amount = 0.5;
  bool removed = false;
  NamePatterns patterns;
};

class Prune final : public ForwardRewrite {
 public:
  explicit Prune(PruneOptions options) : options_(std::move(options)) {}
  [[nodiscard]] std::string_view name() const override { return "prune"; }
  [[nodiscard]] ForwardStage stage() const override { return ForwardStage::kAdapt; }
  [[nodiscard]] Graph apply(const Graph& graph, const RewriteContext& /*context*/) const override {
    if (!options_.removed) return mask_weights(graph, options_.patterns);
    if (options_.method == Method::kStructured) {
      return remove_features(graph, options_.patterns, options_.amount);
    }
    if (options_.method == Method::kTwoOfFour) return store_two_of_four(graph, options_.patterns);
    // prune.remove() leaves a dense weight with zeros in it.
    static_cast<void>(matching_parameters(graph, options_.patterns, "prune"));
    return graph;
  }
  [[nodiscard]] std::string_view remark() const override {
    if (!options_.removed) {
      return "prune: a mask and a masked copy stand beside each dense weight, so that memory rises "
             "while training; gradients and states stay dense";
    }
    if (options_.method == Method::kMagnitude) {
      return "prune: zeros in a dense weight save no memory and no time; structured removes "
             "features, 2:4 stores half of the values";
    }
    return {};
  }

 private:
  PruneOptions options_;
};

}  // namespace
}  // namespace prune_entry_detail

const PolicyEntry& prune_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "prune",
      .kind = "forward rewrite",
      .summary =
          "zeros or removes a share of the weights; only removed features and 2:4 storage "
          "save memory",
      .source = "torch.nn.utils.prune; torch.sparse.semi_structured",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        using prune_entry_detail::Method;
        static constexpr std::array<std::string_view, 3> kMethods = {"magnitude", "structured",
                                                                     "2:4"};
        static constexpr std::array<std::string_view, 2> kWhen = {"masked", "removed"};
        prune_entry_detail::PruneOptions options{.patterns = decode_patterns(d)};
        const std::string method = d.optional_word("method", kMethods, kMethods[0]);
        if (method == kMethods[1]) options.method = Method::kStructured;
        if (method == kMethods[2]) options.method = Method::kTwoOfFour;
        options.amount = d.optional<double>("amount", 0.5, between(0.0, 0.999));
        options.removed = d.optional_word("when", kWhen, kWhen[0]) == kWhen[1];
        if (options.method == Method::kTwoOfFour && options.amount != 0.5) {
          d.fail_at("amount", "2:4 keeps two of four values: its amount is 0.5");
        }
        d.finish();
        return std::make_unique<prune_entry_detail::Prune>(std::move(options));
      }};
  return kEntry;
}

}  // namespace tidemark
