// Decodes `training`: how the model is trained.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "graph/import/hf_config.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/preset.hpp"
#include "policies/rewrite/accumulate.hpp"
#include "scenarios/read/decode_parts.hpp"
#include "scenarios/read/generation.hpp"
#include "scenarios/read/short_form.hpp"

namespace tidemark {
namespace decode_training_detail {
namespace {

constexpr std::string_view kDefaultFramework = "torch-2.4-cuda";
constexpr std::array<std::string_view, 2> kAttentions{"math", "flash"};
constexpr std::array<std::string_view, 3> kCompilers{"none", "inductor", "regional"};
constexpr std::array<std::string_view, 2> kHosts{"eager", "cuda_graphs"};
constexpr std::array<std::string_view, 3> kHeld{"false", "true", "fp32"};
constexpr std::array<std::string_view, 2> kHeldUntil{"end_of_step", "next_output"};
constexpr std::array<std::string_view, 2> kMemoryFormats{"contiguous", "channels_last"};
// Losses of the model, and Megatron's cross-entropy, which computes in place.
constexpr std::string_view kMegatronLoss = "megatron_cross_entropy";
constexpr auto kLosses = [] {
  std::array<std::string_view, kLossNames.size() + 1> names;
  std::copy(kLossNames.begin(), kLossNames.end(), names.begin());
  names.back() = kMegatronLoss;
  return names;
}();
constexpr std::array<std::string_view, 3> kModes{"train", "forward", "generate"};
constexpr std::array<std::string_view, 27> kTrainingKeys{
    "mode",          "generate",       "micro_batch",
    "accumulate",    "sequence",       "image",
    "precision",     "optimizer",      "attention",
    "steps",         "framework",      "loss",
    "dropout",       "zero_grad",      "loader",
    "hold_output",   "autocast_cache", "compile",
    "loss_scale",    "clip_grad_norm", "ema",
    "memory_format", "host",           "global_batch",
    "turns",         "load",           "hold_output_until"};

[[noreturn]] void fail_key(const Decoder& training, std::string_view key,
                           const std::string& problem) {
  throw UserError(location_of_key(training.value(), key), fmt::format("training.{}", key), problem);
}

const FrameworkRules* decode_framework(const Decoder& training) {
  std::vector<std::string_view> names;
  for (const FrameworkRules& rules : framework_profiles())
    names.push_back(rules.name);
  return find_framework(training.optional_word("framework", names, kDefaultFramework));
}

AttentionKind decode_attention(const Decoder& training, const FrameworkRules& framework) {
  const bool fused = framework.has_fused_attention;
  const std::string word =
      training.optional_word("attention", kAttentions, fused ? "flash" : "math");
  if (word == "math") return AttentionKind::kMath;
  if (!fused) {
    training.fail_at("attention",
                     fmt::format("{} has no fused attention; write math", framework.name));
  }
  return AttentionKind::kFlash;
}

std::optional<CompileScope> decode_compile(const Decoder& training,
                                           const FrameworkRules& framework) {
  const std::string compiler = training.optional_word("compile", kCompilers, "none");
  if (compiler == "none") return std::nullopt;
  if (!framework.has_compiler) {
    training.fail_at("compile", fmt::format("{} has no torch.compile, which came with PyTorch 2.0",
                                            framework.name));
  }
  return compiler == "regional" ? CompileScope::kBlocks : CompileScope::kModel;
}

// `fp32`: the model ends in logits.float(), and the training loop keeps those.
HoldOutput decode_hold_output(const Decoder& training) {
  const std::string held = training.optional_word("hold_output", kHeld, "false");
  if (held == "false") return HoldOutput::kNothing;
  return held == "fp32" ? HoldOutput::kFp32Logits : HoldOutput::kLogits;
}

HeldUntil decode_held_until(const Decoder& training, HoldOutput held) {
  const std::string until =
      training.optional_word("hold_output_until", kHeldUntil, kHeldUntil.front());
  if (until == kHeldUntil.front()) return HeldUntil::kEndOfStep;
  if (held == HoldOutput::kNothing) {
    training.fail_at("hold_output_until",
                     "says how long the training loop names what hold_output is, which is false; "
                     "write hold_output: true beside it");
  }
  return HeldUntil::kNextOutput;
}

HostClock decode_host(const Decoder& training, const FrameworkRules& framework) {
  if (training.optional_word("host", kHosts, "eager") == "eager") return HostClock::kEager;
  if (!framework.has_cuda_graphs) {
    training.fail_at(
        "host", fmt::format("{} has no CUDA graphs, which came with PyTorch 1.10", framework.name));
  }
  return HostClock::kCudaGraphs;
}

StepMode decode_mode(const Decoder& training) {
  const Value* mode = training.value().find("mode");
  if (mode != nullptr && mode->kind == Value::Kind::kMapping) return StepMode::kForward;
  return training.optional_word("mode", kModes, "train") == "train" ? StepMode::kTrain
                                                                    : StepMode::kForward;
}

// A loss that is named is that one; otherwise the system that trains the model decides.
std::optional<TrainingSystem> decode_loss_system(const Decoder& training) {
  if (!training.has("loss")) return std::nullopt;
  const std::string word = training.required_word("loss", kLosses);
  return word == kMegatronLoss ? TrainingSystem::kMegatron : TrainingSystem::kTorch;
}

LossKind decode_loss(const Decoder& training) {
  const std::string word = training.optional_word("loss", kLosses, "cross_entropy");
  if (word == kMegatronLoss) return LossKind::kCrossEntropy;
  const auto* const found = std::find(kLossNames.begin(), kLossNames.end(), word);
  return static_cast<LossKind>(found - kLossNames.begin());
}

std::optional<std::int64_t> decode_target_length(const Decoder& training) {
  const auto length = training.maybe<std::int64_t>("target_length", up_to(kMaxSequence));
  if (length && decode_loss(training) != LossKind::kCtc) {
    training.fail_at("target_length",
                     "these are the labels of a sample for loss: ctc; leave it out");
  }
  return length;
}

ModelOptions decode_model_options(const Decoder& training, const TrainingOptions& options) {
  return {.micro_batch = training.optional<std::int64_t>("micro_batch", 1, up_to(kMaxSamples)),
          .sequence = training.maybe<std::int64_t>("sequence", up_to(kMaxSequence)),
          .image = training.maybe<std::int64_t>("image", up_to(kMaxImage)),
          .dtype = rules_of(options.precision).model,
          .attention = decode_attention(training, *options.framework),
          .dropout = training.maybe<double>("dropout", between(0, 1)),
          .loss = decode_loss(training),
          .target_length = decode_target_length(training)};
}

// Gradients are kept in their parameters' type or wider.
void check_gradient_dtype(const Decoder& training, const TrainingOptions& options) {
  const PrecisionRules& rules = rules_of(options.precision);
  if (!options.gradient_dtype || options.gradient_dtype == DType::kFloat32) return;
  if (options.gradient_dtype == rules.gradients) return;
  training.fail_at("gradient_dtype",
                   fmt::format("gradients of {} are {}; they can only be kept wider, as fp32",
                               rules.name, name_of(rules.gradients)));
}

std::string micro_batches_text(std::int64_t count) {
  return fmt::format("{} micro-batch{}", count, count == 1 ? "" : "es");
}

// Returns the micro-batches of a step: as given, or as many as make a batch of all data ranks.
std::int64_t decode_accumulate(const Decoder& training, const ModelReference& model,
                               std::int64_t micro_batch, int data_ranks) {
  const auto given = training.optional<std::int64_t>("accumulate", 1, between(1, kMaxAccumulate));
  const auto whole = training.maybe<std::int64_t>("global_batch", between(1, kMaxGlobalBatch));
  if (!whole) return given;
  if (model.kind == ModelKind::kOnnx && !model.onnx.batch_axis && !training.has("micro_batch")) {
    training.fail_at("global_batch",
                     "the file says how many samples a micro-batch has; write micro_batch, too, or "
                     "batch_axis in model");
  }
  const std::int64_t once = micro_batch * data_ranks;
  const std::string ranks =
      data_ranks == 1 ? "" : fmt::format(" of each of {} data ranks", data_ranks);
  if (*whole % once != 0) {
    const std::int64_t below = *whole / once * once;
    training.fail_at("global_batch",
                     fmt::format("{} samples are no multiple of a micro-batch of {}{}; write {}{}",
                                 *whole, micro_batch, ranks,
                                 below == 0 ? "" : fmt::format("{} or ", below), below + once));
  }
  const std::int64_t accumulate = *whole / once;
  if (accumulate > kMaxAccumulate) {
    training.fail_at(
        "global_batch",
        fmt::format("{} samples are {} of {}{}; at most {} are simulated in a step", *whole,
                    micro_batches_text(accumulate), micro_batch, ranks, kMaxAccumulate));
  }
  if (training.has("accumulate") && given != accumulate) {
    training.fail_at(
        "accumulate",
        fmt::format("{} of {}{} are {} samples, and global_batch says {}; leave one of "
                    "the two out",
                    micro_batches_text(given), micro_batch, ranks, given * once, *whole));
  }
  return accumulate;
}

void check_micro_batches(const Decoder& training, const TrainingOptions& options) {
  const std::int64_t micro_batches = options.accumulate * options.steps;
  if (micro_batches <= kMaxMicroBatches) return;
  training.fail_at(training.has("global_batch") ? "global_batch" : "accumulate",
                   fmt::format("{} micro-batches in each of {} steps are {}; at most {} are "
                               "simulated in all",
                               options.accumulate, options.steps, micro_batches, kMaxMicroBatches));
}

// The keys about sequences, images and attention that a model reads.
struct Reads {
  bool sequences = true;
  bool images = true;
  bool attention = true;
};

Reads what_is_read(const Decoder& training, const ModelReference& model) {
  if (model.kind == ModelKind::kPreset) {
    const ModelPreset& preset = find_preset(model.name);
    return {.sequences = preset.group == "language",
            .images = preset.group == "vision",
            .attention = preset.attends};
  }
  const bool asked = training.has("sequence") || training.has("image");
  if (model.kind != ModelKind::kHuggingFace || !asked) return {};
  const bool images = hf_reads_images(read_document(model.name));
  return {.sequences = !images, .images = images};
}

// Throws for keys that would be ignored: an image has no sequence, a text no image, and the
// operators of a cost graph are fixed.
void check_keys_apply(const Decoder& training, const ModelReference& model) {
  if (model.kind == ModelKind::kCostGraph) {
    for (const Value::Entry& entry : training.value().entries) {
      if (entry.key == "steps" || entry.value.is_null()) continue;
      fail_key(training, entry.key,
               "a cost graph says itself what a step computes; of 'training' only 'steps' applies");
    }
    return;
  }
  if (model.kind == ModelKind::kOnnx) {
    for (const std::string_view key : {"sequence", "image", "attention"}) {
      if (!training.has(key)) continue;
      fail_key(training, key,
               "a model in ONNX has the sizes and the attention that were exported; open axes are "
               "bound by model.axes");
    }
    return;
  }
  const Reads reads = what_is_read(training, model);
  if (!reads.sequences && training.has("sequence")) {
    fail_key(training, "sequence", fmt::format("{} reads no sequences", model_title(model)));
  }
  if (!reads.attention && training.has("attention")) {
    fail_key(training, "attention", fmt::format("{} has no attention", model_title(model)));
  }
  if (!reads.images && training.has("image")) {
    fail_key(training, "image", fmt::format("{} reads no images", model_title(model)));
  }
}

}  // namespace
}  // namespace decode_training_detail

std::vector<std::string> training_keys() {
  std::vector<std::string> keys(decode_training_detail::kTrainingKeys.begin(),
                                decode_training_detail::kTrainingKeys.end());
  keys.emplace_back("gradient_dtype");
  return keys;
}

TrainingOptions decode_training(const Decoder& scenario, const ModelReference& model,
                                const DeviceProfile& device, int data_ranks) {
  const Decoder training = scenario.optional_child("training");
  TrainingOptions options;
  options.mode = decode_training_detail::decode_mode(training);
  options.evaluates_loss = training.has("loss");
  options.loss_of = decode_training_detail::decode_loss_system(training);
  options.framework = decode_training_detail::decode_framework(training);
  // bfloat16 is emulated where the device has no tensor cores for it.
  const bool has_bf16 = matrix_type(device, DType::kBFloat16) == DType::kBFloat16;
  options.precision =
      decode_precision(training, has_bf16 ? Precision::kBf16Mixed : Precision::kFp16Mixed);
  if (rules_of(options.precision).fp8) {
    options.fp8 = decode_fp8(training);
    if (matrix_type(device, DType::kFloat8) != DType::kFloat8) {
      training.fail_at("precision", fmt::format("{} has no tensor cores for fp8, which come with "
                                                "compute capability 8.9; write bf16_mixed",
                                                device.name));
    }
  }
  options.gradient_dtype = decode_gradient_dtype(training);
  options.optimizer = decode_optimizer(training);
  options.model = decode_training_detail::decode_model_options(training, options);
  if (const auto generation = decode_generation(training)) {
    options.model.generation = generation;
    options.model.sequence = generation->room;
    options.model.loss = LossKind::kNone;
  }
  options.accumulate = decode_training_detail::decode_accumulate(
      training, model, options.model.micro_batch, data_ranks);
  options.loss_scale = decode_loss_scale(training);
  options.clip_grad_norm = training.maybe<double>("clip_grad_norm", above(0));
  options.ema = decode_training_ema(training);
  // The last of the steps updates parameters that have their optimizer state.
  const bool skips = options.loss_scale && options.loss_scale->dynamic;
  const int steps = options.model.generation ? 1 : 2;
  options.steps = training.optional<int>("steps", steps + (skips ? options.loss_scale->skipped : 0),
                                         between(1, kMaxSteps));
  options.zero_grad = decode_zero_grad(training, *options.framework);
  options.hold_output = decode_training_detail::decode_hold_output(training);
  options.held_until = decode_training_detail::decode_held_until(training, options.hold_output);
  options.autocast_cache = training.optional<bool>("autocast_cache", true);
  if (training.has("loader")) options.loader = decode_loader(training.required_child("loader"));
  if (training.has("load")) options.load = decode_load(training.required_child("load"));
  options.compile = decode_training_detail::decode_compile(training, *options.framework);
  options.channels_last =
      training.optional_word("memory_format", decode_training_detail::kMemoryFormats,
                             "contiguous") == "channels_last";
  options.host = decode_training_detail::decode_host(training, *options.framework);
  static_cast<void>(training.has("turns"));  // see turns.hpp
  training.finish();
  decode_training_detail::check_gradient_dtype(training, options);
  decode_training_detail::check_micro_batches(training, options);
  decode_training_detail::check_keys_apply(training, model);
  return options;
}

}  // namespace tidemark
