// An encoder with free sizes on torch.nn.TransformerEncoder: token, position and segment
// embeddings, layer norm, encoder layers, one linear layer to the vocabulary.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/models/language.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/preset.hpp"
#include "graph/models/torch_modules.hpp"

namespace tidemark {

namespace torch_encoder_detail {
namespace {

constexpr std::int64_t kSegments = 2;

struct TorchEncoderConfig {
  std::int64_t layers = 4;
  std::int64_t width = 256;
  std::int64_t heads = 8;
  std::optional<std::int64_t> ffn;  // 4 * width unless given
  std::int64_t vocab = 4096;
  std::int64_t positions = 128;
  std::string activation = "gelu";
  double dropout = 0.1;
  bool norm_first = false;
};

TorchEncoderConfig decode_torch_encoder(const Decoder& overrides, TorchEncoderConfig config) {
  const Decoder& d = overrides;
  config.layers = d.optional<std::int64_t>("layers", config.layers, up_to(kMaxLayers));
  config.width = d.optional<std::int64_t>("width", config.width, up_to(kMaxWidth));
  config.heads = d.optional<std::int64_t>("heads", config.heads, up_to(kMaxHeads));
  if (const auto ffn = d.maybe<std::int64_t>("ffn", up_to(kMaxWidth))) config.ffn = ffn;
  config.vocab = d.optional<std::int64_t>("vocab", config.vocab, up_to(kMaxVocabulary));
  config.positions = d.optional<std::int64_t>("sequence", config.positions, up_to(kMaxSequence));
  config.activation = d.optional_word("activation", activation_names(), config.activation);
  config.dropout = d.optional<double>("dropout", config.dropout, between(0, 1));
  config.norm_first = d.optional<bool>("norm_first", config.norm_first);
  require_divides(d, "heads", config.heads, "heads", config.width,
                  fmt::format("a width of {}", config.width));
  return config;
}

Graph build_torch_encoder(const TorchEncoderConfig& config, const std::string& name,
                          const ModelOptions& options) {
  check_options(options);
  const std::int64_t batch = options.micro_batch;
  const std::int64_t sequence = sequence_of(options, config.positions, true);
  const std::int64_t ffn = config.ffn.value_or(4 * config.width);
  const double dropout = options.dropout.value_or(config.dropout);
  check_transformer_size({.batch = batch,
                          .sequence = sequence,
                          .heads = config.heads,
                          .ffn = ffn,
                          .vocab = config.vocab});
  ModelBuilder b(name, options.dtype);
  const TensorId tokens = b.input("tokens", {batch, sequence}, DType::kInt64);
  // norm(tok(idx) + pos(arange) + seg(zeros_like(idx)))
  TensorId x = b.embedding("tok", tokens, config.vocab, config.width);
  x = b.add_tensors(x,
                    b.embedding("pos", position_ids(b, sequence), config.positions, config.width));
  const TensorId segments =
      b.add("zeros", {}, {{"shape", std::vector<std::int64_t>{batch, sequence}}});
  x = b.add_tensors(x, b.embedding("seg", segments, kSegments, config.width));
  x = b.dropout(b.layer_norm("ln", x), dropout);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const auto block = b.block(fmt::format("enc.layers.{}", i));
    x = torch_encoder_layer(b, x,
                            {.heads = config.heads,
                             .ffn = ffn,
                             .dropout = dropout,
                             .activation = config.activation,
                             .norm_first = config.norm_first,
                             .kind = options.attention});
  }
  const TensorId logits = b.linear("head", x, config.vocab);
  b.set_output(logits);
  b.set_samples(batch, batch * sequence);
  add_language_loss(b, logits, options.loss, false);
  return checked(b.finish());
}

}  // namespace
}  // namespace torch_encoder_detail

std::vector<ModelPreset> torch_encoder_presets() {
  return {make_preset<torch_encoder_detail::TorchEncoderConfig>(
      "bert", "language", "BERT's encoder on torch.nn.TransformerEncoder, with free sizes", {},
      torch_encoder_detail::decode_torch_encoder, torch_encoder_detail::build_torch_encoder)};
}

}  // namespace tidemark
