// A recurrent language model as PyTorch's word_language_model example writes it: RNNModel with
// tokens [steps, samples].
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/models/language.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/preset.hpp"
#include "graph/models/recurrent.hpp"

namespace tidemark {

namespace lstm_detail {
namespace {

// The example's defaults; WikiText-2 has 33,278 words.
struct LstmConfig {
  std::int64_t layers = 2;
  std::int64_t width = 200;  // width of the embedding
  std::int64_t hidden = 200;
  std::int64_t vocab = 33278;
  std::int64_t sequence = 35;  // steps that backward goes through
  double dropout = 0.2;
  bool tie = false;
  std::string cell = "lstm";
};

LstmConfig decode_lstm(const Decoder& d, LstmConfig config) {
  config.cell = d.optional_word("cell", kRecurrentCells, config.cell);
  config.layers = d.optional<std::int64_t>("layers", config.layers, up_to(kMaxLayers));
  config.width = d.optional<std::int64_t>("width", config.width, up_to(kMaxWidth));
  config.hidden = d.optional<std::int64_t>("hidden", config.hidden, up_to(kMaxWidth));
  config.vocab = d.optional<std::int64_t>("vocab", config.vocab, up_to(kMaxVocabulary));
  config.sequence = d.optional<std::int64_t>("sequence", config.sequence, up_to(kMaxSequence));
  config.dropout = d.optional<double>("dropout", config.dropout, between(0, 1));
  config.tie = d.optional<bool>("tie", config.tie);
  if (config.dropout == 1) d.fail_at("dropout", "dropout of 1 leaves nothing; it stays below 1");
  if (config.tie && config.hidden != config.width) {
    d.fail_at("tie", fmt::format("a decoder of {} states cannot share the weight of an embedding "
                                 "of width {}; make hidden and width equal",
                                 config.hidden, config.width));
  }
  return config;
}

// Initial states are zeros: the example passes on those of the batch before, detached.
Graph build_lstm(const LstmConfig& config, const std::string& name, const ModelOptions& options) {
  check_options(options);
  const std::int64_t steps = sequence_of(options, config.sequence, false);
  const double dropout = options.dropout.value_or(config.dropout);
  ModelBuilder b(name, options.dtype);
  const TensorId tokens = b.input("tokens", {steps, options.micro_batch}, DType::kInt64);
  TensorId table;
  TensorId x = b.embedding("encoder", tokens, config.vocab, config.width, &table);
  x = b.dropout(x, dropout);
  x = recurrent_layers(b, config.cell, "rnn", x,
                       {.hidden = config.hidden,
                        .layers = config.layers,
                        .dropout = config.layers > 1 ? dropout : 0});
  x = b.dropout(x, dropout);
  if (config.tie) {
    const auto scope = b.scope("decoder");
    x = b.linear_with(x, table, b.parameter("bias", {config.vocab}));
  } else {
    x = b.linear("decoder", x, config.vocab);
  }
  b.set_output(x);
  b.set_samples(options.micro_batch, steps * options.micro_batch);
  add_language_loss(b, x, options.loss, false);
  return checked(b.finish());
}

}  // namespace
}  // namespace lstm_detail

std::vector<ModelPreset> lstm_presets() {
  ModelPreset preset = make_preset<lstm_detail::LstmConfig>(
      "lstm_lm", "language",
      "recurrent language model of torch's examples: lstm, gru or rnn, 14.0 M parameters", {},
      lstm_detail::decode_lstm, lstm_detail::build_lstm);
  preset.attends = false;
  return {std::move(preset)};
}

}  // namespace tidemark
