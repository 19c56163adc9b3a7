// A scenario while it is imported. Every value has the location of the setting that it came from,
// so that a refusal of the scenario names the imported file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/import/settings.hpp"

namespace tidemark {

// The engine that scales the gradients and keeps the weights; it decides what "bf16" means.
enum class TrainingEngine : std::uint8_t { kTrainer, kDeepSpeed, kFsdp };

struct ScenarioDraft {
  Value training;  // a mapping
  Value hardware;  // keys beside the GPU
  Value policies;  // a mapping of names to parameters, in the order of the list

  TrainingEngine engine = TrainingEngine::kTrainer;
  Value low_precision;       // "bf16" or "fp16", with its location; null: none
  bool low_model = false;    // the model itself has that type, under the Trainer
  bool low_unmixed = false;  // it is no mixed precision of the engine: FSDP casts nothing
  bool low_frozen = false;   // a frozen base, of that type whatever the engine
  Value loss_scale;          // loss scale of fp16; null: dynamic
  Value optimizer_tier;      // "host" or "nvme": where ZeRO's partitions are; null: on the device
  Value parameter_tier;
  bool tf32 = false;
  std::int64_t ranks = 0;         // number of GPUs; 0: not said
  std::int64_t hidden_size = 0;   // hidden size of the model; 0: not known
  std::string liger_type;         // see liger_models.hpp
  bool narrows_rest = true;       // see axolotl_models.hpp
  std::int64_t global_batch = 0;  // samples of a step on all GPUs; 0: not said
  Location global_batch_location;
  std::int64_t machines = 1;  // hosts that the GPUs are divided among
  Location machines_location;

  ScenarioDraft();
  void set_training(const std::string& key, Value value);
  // Sets the type of training. Throws UserError where another setting asked for another one.
  void set_low_precision(Value type);
  // Returns the parameters of a policy, which is listed where it is not yet.
  Value& policy(const std::string& name, const Location& location);
  [[nodiscard]] bool has_policy(std::string_view name) const;
  // Has ZeRO keep its partitions of the optimizer or of the parameters where DeepSpeed's `device`
  // (cpu or nvme) says; both return what the setting becomes.
  std::string offload_optimizer(std::string_view device, const Location& location);
  std::string offload_parameters(std::string_view device, const Location& location);
  [[nodiscard]] bool offloads_optimizer() const {
    return !optimizer_tier.is_null() || has_policy("offload_optimizer");
  }

  // Completes what several settings decide together: precision, loss scale, the number of GPUs,
  // what is offloaded.
  void complete();
};

// Returns a scalar at the place of a setting.
[[nodiscard]] Value scalar_at(std::string text, const Settings& settings, std::string_view key);
[[nodiscard]] Value scalar_at(std::string text, const Location& location);

// Sets training.optimizer from a name of transformers' `optim` or axolotl's `optimizer`; reports
// names that are not known.
void import_optimizer(Settings& settings, std::string_view key, ScenarioDraft& draft);

// Each imports one format.
void import_deepspeed(Settings& settings, ScenarioDraft& draft);
void import_training_arguments(Settings& settings, ScenarioDraft& draft);
void import_accelerate(Settings& settings, ScenarioDraft& draft);
void import_axolotl(Settings& settings, ScenarioDraft& draft);

// Import the keys that are alike in TrainingArguments and axolotl: accumulation, clipping,
// compilation and fused kernels; gradient checkpointing with its options; the data loader.
void import_trainer_keys(Settings& settings, ScenarioDraft& draft);
void import_checkpointing(Settings& settings, ScenarioDraft& draft);
void import_loader(Settings& settings, ScenarioDraft& draft);
// Imports transformers' name of an attention: eager, sdpa, flash_attention_2.
void import_attention(Settings& settings, std::string_view key, ScenarioDraft& draft);
// Imports the model's and the adapter's keys that TRL's scripts have beside TrainingArguments.
void import_model_arguments(Settings& settings, ScenarioDraft& draft);
// Sets `compute` from bitsandbytes' bnb_4bit_compute_dtype, where the settings have it.
void import_compute_type(Settings& settings, Value& compute);
// Sets the parameters of policies.liger_kernels that are false.
void leave_out_kernels(ScenarioDraft& draft, std::span<const std::string_view> kernels,
                       const Location& location);
// Reentrant checkpointing gives adapters no gradient unless the embedding's output asks for one:
// sets lora's input_gradients where the libraries do.
void ask_for_input_gradients(ScenarioDraft& draft);
// Imports Accelerate's ParallelismConfig at `key`, behind FSDP; and DeepSpeed's `tensor_parallel`.
void import_parallelism(Settings& settings, std::string_view key, ScenarioDraft& draft);
void import_tensor_parallel(Settings& settings, ScenarioDraft& draft);
// Imports `fsdp` (words such as full_shard) and `fsdp_config`; in Accelerate's file, where keys of
// the group begin with "fsdp_", there are no words.
void import_fsdp(Settings& settings, ScenarioDraft& draft);
// Imports `deepspeed`: a configuration in line, or the path of one.
void import_deepspeed_file(Settings& settings, std::string_view key, ScenarioDraft& draft);

}  // namespace tidemark
