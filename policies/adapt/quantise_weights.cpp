// Weights that are served, or frozen, as codes.
#include <array>
#include <utility>

#include "policies/adapt/entries.hpp"
#include "policies/adapt/quantise.hpp"

namespace tidemark {

const PolicyEntry& quantise_weights_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "quantise_weights",
      .kind = "forward rewrite",
      .summary =
          "weights of linear layers, the head's if asked for, are frozen as codes of 4 or 8 bits "
          "and "
          "dequantised at each use; also with training.mode: forward",
      .source = "bitsandbytes 0.50; torchao; Dettmers et al. 2022, 2023",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        static constexpr std::array<std::string_view, 5> kTypes = {"nf4", "nf4_dq", "fp4", "fp4_dq",
                                                                   "int8"};
        QuantiseOptions options = decode_quantise(d, d.optional_word("dtype", kTypes, "nf4"));
        options.patterns = decode_patterns(d);
        options.policy = "quantise_weights";
        d.finish();
        return std::make_unique<QuantiseLinears>(std::move(options));
      }};
  return kEntry;
}

}  // namespace tidemark
