#include "scenarios/import/import_settings.hpp"

#include <algorithm>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/results/document_json.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::import_settings_test {
namespace {

const ImportOptions kGpt2{.model = "gpt2", .gpu = "a100-sxm-80gb"};

ImportedScenario read(const std::string& text, const std::string& file = "file.yaml") {
  return read_settings(parse_document(text, file), kGpt2);
}

// Returns training and policies as one line of JSON each.
std::string training(const ImportedScenario& imported) {
  return as_json(*imported.scenario.find("training"));
}
std::string policies(const ImportedScenario& imported) {
  return as_json(*imported.scenario.find("policies"));
}

bool lists(const std::vector<ImportedSetting>& settings, const std::string& key) {
  return std::any_of(settings.begin(), settings.end(),
                     [&](const ImportedSetting& setting) { return setting.key == key; });
}

// Returns the keys of a document, as an importer names them.
void collect_keys(const Value& value, const std::string& path, std::vector<std::string>& keys) {
  for (const Value::Entry& entry : value.entries) {
    const std::string key = path.empty() ? entry.key : path + '.' + entry.key;
    keys.push_back(key);
    collect_keys(entry.value, key, keys);
  }
}

constexpr const char* kDeepSpeed = R"({
  "train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2,
  "gradient_clipping": 1.0, "bf16": {"enabled": true},
  "optimizer": {"type": "AdamW", "params": {"lr": 3e-5}},
  "zero_optimization": {"stage": 3, "overlap_comm": true, "reduce_bucket_size": 5e8,
    "stage3_max_live_parameters": 1e9, "sub_group_size": 1e9,
    "offload_optimizer": {"device": "cpu", "pin_memory": true},
    "zero_quantized_weights": true},
  "steps_per_print": 10
})";
constexpr const char* kTrainingArguments = R"({
  "output_dir": "out", "per_device_train_batch_size": 2, "gradient_accumulation_steps": 8,
  "bf16": true, "optim": "adamw_bnb_8bit", "gradient_checkpointing": true,
  "gradient_checkpointing_kwargs": {"use_reentrant": false}, "max_grad_norm": 0.5,
  "learning_rate": 2e-5, "logging_steps": 10, "neftune_noise_alpha": 5
})";
constexpr const char* kAccelerate = R"(compute_environment: LOCAL_MACHINE
distributed_type: FSDP
mixed_precision: bf16
num_processes: 8
fsdp_config:
  fsdp_version: 2
  fsdp_reshard_after_forward: true
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_activation_checkpointing: true
  fsdp_state_dict_type: SHARDED_STATE_DICT
)";
constexpr const char* kAxolotl = R"(base_model: NousResearch/Llama-3.2-1B
load_in_4bit: true
adapter: qlora
lora_r: 32
lora_alpha: 16
lora_dropout: 0.05
lora_target_modules: [q_proj, v_proj]
sequence_len: 2048
sample_packing: true
micro_batch_size: 2
gradient_accumulation_steps: 4
optimizer: paged_adamw_8bit
bf16: auto
tf32: false
gradient_checkpointing: true
flash_attention: true
datasets: [{path: d, type: alpaca}]
some_new_key: 3
)";

// A file of TRL's scripts for preference training.
constexpr const char* kScript = R"(
model_name_or_path: my/model
dtype: bfloat16
attn_implementation: flash_attention_2
use_peft: True
load_in_4bit: true
lora_r: 128
lora_target_modules: [q_proj, v_proj]
bf16: true
beta: 0.01
gradient_checkpointing: true
gradient_checkpointing_kwargs: {use_reentrant: False}
max_length: 1024
optim: paged_adamw_32bit
output_dir: out
per_device_train_batch_size: 4
)";

TEST_SUITE("unit") {
  TEST_CASE("a DeepSpeed configuration says batches, ZeRO, its offloading and types") {
    const ImportedScenario imported = read(kDeepSpeed, "ds.json");
    CHECK(imported.format == "DeepSpeed configuration");
    CHECK(training(imported) ==
          R"({"micro_batch": 4, "accumulate": 2, "optimizer": "adamw", "clip_grad_norm": 1, )"
          R"("precision": "bf16_mixed"})");
    CHECK(policies(imported) ==
          R"([{"zero": {"stage": 3, "reduce_bucket_size": 500000000, )"
          R"("stage3_max_live_parameters": 1000000000, "sub_group_size": 1000000000, )"
          R"("overlap_comm": true, "offload": {"optimizer": "host"}}}])");
    // 64 samples = 4 x 2 x 8 GPUs.
    CHECK(as_json(*imported.scenario.find("hardware")) ==
          R"({"gpu": "a100-sxm-80gb", "count": 8})");
    CHECK(lists(imported.report.not_understood, "zero_optimization.zero_quantized_weights"));
    CHECK(lists(imported.report.without_effect, "optimizer.params.lr"));
    CHECK(imported.report.not_understood.size() == 1);
  }

  TEST_CASE("DeepSpeed's offloading is of ZeRO's partitions; one GPU has none of the parameters") {
    const auto listed = [](const std::string& zero, const std::string& ranks) {
      return policies(
          read("{train_micro_batch_size_per_gpu: 1, gradient_accumulation_steps: 1, "
               "train_batch_size: " +
                   ranks + ", zero_optimization: {" + zero + "}}",
               "ds.yaml"));
    };
    const std::string both =
        "stage: 3, offload_optimizer: {device: nvme}, offload_param: {device: cpu, pin_memory: "
        "true}";
    CHECK(listed(both, "8") ==
          R"([{"zero": {"stage": 3, "offload": {"optimizer": "nvme", "parameters": "host"}}}])");
    CHECK(listed(both, "1") == R"([{"zero": {"stage": 3, "offload": {"optimizer": "nvme"}}}, )"
                               R"({"offload_parameters": {"tier": "host"}}])");
    CHECK(listed("stage: 3, offload_param: {device: cpu}", "1") ==
          R"([{"zero": {"stage": 3}}, {"offload_parameters": {"tier": "host"}}])");
    CHECK(listed("stage: 2, offload_param: {device: cpu}", "8") == R"([{"zero": {"stage": 2}}])");
    CHECK(listed("stage: 2, cpu_offload: true", "8") ==
          R"([{"zero": {"stage": 2, "offload": {"optimizer": "host"}}}])");
    CHECK(listed("stage: 3, offload_optimizer: {device: cpu, ratio: 0.3}", "8") ==
          R"([{"zero": {"stage": 3}}, {"offload_optimizer": {"tier": "host", "ratio": 0.3}}])");
  }

  TEST_CASE("TrainingArguments have the Trainer's defaults: autocast, clipping at 1") {
    const ImportedScenario imported = read(kTrainingArguments);
    CHECK(imported.format == "TrainingArguments");
    CHECK(training(imported) == R"({"micro_batch": 2, "accumulate": 8, "clip_grad_norm": 0.5, )"
                                R"("optimizer": "adamw_8bit", "precision": "bf16_autocast"})");
    CHECK(policies(imported) == R"([{"checkpoint_every": {"period": 1, "reentrant": false}}])");
    CHECK(lists(imported.report.not_understood, "neftune_noise_alpha"));
    const ImportedScenario bare = read("{output_dir: out}");
    CHECK(training(bare) == R"({"micro_batch": 8, "clip_grad_norm": 1.0, "precision": "fp32"})");
    // Types of DeepSpeed's configuration, where one is named, are those of its own engine.
    const ImportedScenario with_zero = read(
        "{output_dir: out, bf16: true, fp16: false, deepspeed: {zero_optimization: {stage: 2, "
        "reduce_bucket_size: auto}, bf16: {enabled: auto}}}");
    CHECK(training(with_zero).find("bf16_mixed") != std::string::npos);
    CHECK(policies(with_zero) == R"([{"zero": {"stage": 2}}])");
  }

  TEST_CASE("Accelerate's FSDP keeps fp32 shards and computes in the mixed type") {
    const ImportedScenario imported = read(kAccelerate);
    CHECK(imported.format == "Accelerate configuration");
    CHECK(training(imported) == R"({"precision": "fp32"})");
    CHECK(policies(imported) ==
          R"([{"fsdp": {"version": 2, "units": "blocks", "reshard_after_forward": true, )"
          R"("param_dtype": "bf16", "reduce_dtype": "bf16"}}, )"
          R"({"checkpoint_every": {"period": 1, "reentrant": false}}])");
    CHECK(as_json(*imported.scenario.find("hardware")) ==
          R"({"gpu": "a100-sxm-80gb", "count": 8})");
    CHECK(imported.report.not_understood.empty());
    const ImportedScenario zero = read(
        "{distributed_type: DEEPSPEED, num_processes: 2, mixed_precision: fp16, deepspeed_config: "
        "{zero_stage: 2, offload_optimizer_device: cpu, gradient_accumulation_steps: 4}}");
    CHECK(policies(zero) == R"([{"zero": {"stage": 2, "offload": {"optimizer": "host"}}}])");
    CHECK(training(zero) ==
          R"({"accumulate": 4, "precision": "fp16_mixed", "loss_scale": "dynamic"})");
    CHECK(policies(read("{distributed_type: FSDP, fsdp_config: {fsdp_sharding_strategy: 2}}")) ==
          R"([{"fsdp": {"version": 1, "reshard_after_forward": false}}])");
  }

  TEST_CASE("Accelerate compiles the model, or each block where it says so") {
    const auto compiled = [](const std::string& dynamo) {
      const ImportedScenario imported = read(
          "{compute_environment: LOCAL_MACHINE, distributed_type: MULTI_GPU, num_processes: "
          "2, mixed_precision: bf16, dynamo_config: {" +
          dynamo + "}}");
      CHECK(imported.report.not_understood.empty());
      const Value* compile = imported.scenario.find("training")->find("compile");
      return compile == nullptr ? "none" : compile->scalar;
    };
    CHECK(compiled("dynamo_backend: INDUCTOR") == "inductor");
    CHECK(compiled("dynamo_backend: INDUCTOR, dynamo_use_regional_compilation: true") ==
          "regional");
    CHECK(compiled("dynamo_backend: INDUCTOR, dynamo_use_regional_compilation: false") ==
          "inductor");
    CHECK(compiled("dynamo_backend: 'NO', dynamo_use_regional_compilation: true") == "none");
  }

  TEST_CASE("axolotl's QLoRA has a quantised base, adapters and reentrant checkpointing") {
    const ImportedScenario imported = read(kAxolotl);
    CHECK(imported.format == "axolotl configuration");
    CHECK(policies(imported) ==
          R"([{"lora": {"rank": 32, "alpha": 16, "dropout": 0.05, "targets": ["q_proj", )"
          R"("v_proj"], "base": "nf4_dq", "compute_dtype": "bf16", "prepare": true, )"
          R"("input_gradients": true}}, {"checkpoint_every": {"period": 1}}])");
    CHECK(training(imported) ==
          R"({"micro_batch": 2, "sequence": 2048, "attention": "flash", )"
          R"("optimizer": "paged_adamw_8bit", "accumulate": 4, "clip_grad_norm": 1.0, )"
          R"("precision": "bf16_autocast"})");
    CHECK(imported.report.not_understood.size() == 1);
    CHECK(lists(imported.report.not_understood, "some_new_key"));
    CHECK(policies(read("{base_model: m, adapter: lora, load_in_8bit: true, lora_r: 8, "
                        "lora_target_linear: true}")) ==
          R"([{"lora": {"rank": 8, "targets": "all-linear", "base": "int8", "prepare": true}}])");
  }

  TEST_CASE("FSDP's first version has peft's units where the Trainer trains adapters") {
    const std::string file =
        "{base_model: m, adapter: lora, lora_r: 8, lora_target_linear: true, fsdp: [full_shard, "
        "auto_wrap], fsdp_version: ";
    CHECK(policies(read(file + "1}")).find(R"("trained_units": "each")") != std::string::npos);
    CHECK(policies(read(file + "2}")).find("trained_units") == std::string::npos);
    CHECK(policies(read("{base_model: m, fsdp: [full_shard, auto_wrap], fsdp_version: 1}"))
              .find("trained_units") == std::string::npos);
  }

  TEST_CASE("TRL's model and adapter keys beside TrainingArguments make the adapter") {
    const ImportedScenario imported = read(kScript);
    CHECK(imported.format == "TrainingArguments");
    CHECK(policies(imported) ==
          R"([{"checkpoint_every": {"period": 1, "reentrant": false}}, {"lora": {"rank": 128, )"
          R"("alpha": 32, "dropout": 0.05, "targets": ["q_proj", "v_proj"], "base": "nf4", )"
          R"("compute_dtype": "bf16", "dtype": "bf16"}}])");
    CHECK(training(imported) ==
          R"({"micro_batch": 4, "clip_grad_norm": 1.0, "attention": "flash", )"
          R"("optimizer": "adamw", "sequence": 1024, "precision": "bf16_autocast"})");
    CHECK(lists(imported.report.not_understood, "beta"));
    CHECK(imported.report.not_understood.size() == 1);
    // Without use_peft the keys of adapters do nothing; weights in bf16 are trained as they are.
    CHECK(policies(read("{output_dir: o, dtype: bfloat16, lora_r: 8}")) == "[]");
    CHECK(training(read("{output_dir: o, dtype: bfloat16}")).find("\"bf16\"") != std::string::npos);
    // Reentrant checkpointing asks for a gradient of the embedding.
    CHECK(policies(read("{output_dir: o, use_peft: true, gradient_checkpointing: true}"))
              .find("input_gradients") != std::string::npos);
  }

  TEST_CASE("words of YAML 1.1 are flags") {
    for (const char* word : {"True", "TRUE", "yes", "On"}) {
      CAPTURE(word);
      CHECK(policies(read(fmt::format("{{output_dir: o, gradient_checkpointing: {}}}", word))) ==
            R"([{"checkpoint_every": {"period": 1}}])");
    }
    CHECK(policies(read("{output_dir: o, gradient_checkpointing: False}")) == "[]");
  }

  TEST_CASE("torch.compile's modes with CUDA graphs, and offloading by axolotl's words") {
    CHECK(training(read("{output_dir: o, torch_compile: true, torch_compile_mode: "
                        "reduce-overhead}"))
              .find(R"("compile": "inductor", "host": "cuda_graphs")") != std::string::npos);
    CHECK(policies(read("{base_model: m, gradient_checkpointing: true, activation_offloading: "
                        "legacy}")) == R"([{"offload_checkpoints": {}}, )"
                                       R"({"checkpoint_every": {"period": 1}}])");
  }

  TEST_CASE("Liger's kernels come with its loss, for the models that it is made for") {
    const auto of = [](const std::string& text, const char* model) {
      return read_settings(parse_document(text, "file.yaml"), {.model = model, .gpu = "a100"});
    };
    const std::string trainer = "output_dir: o\nuse_liger_kernel: true\n";
    CHECK(policies(of(trainer, "llama-3.2-1b")) ==
          R"([{"fused_loss": "liger"}, {"liger_kernels": {}}])");
    // The Trainer's functions for Qwen 3 leave out the norms of queries and keys.
    CHECK(policies(of(trainer, "qwen3-0.6b")) ==
          R"([{"fused_loss": "liger"}, {"liger_kernels": {"head_norms": false}}])");
    for (const char* model : {"gpt2", "falcon-7b", "deepseek-v2-lite"}) {
      const ImportedScenario none = of(trainer, model);
      CHECK(policies(none) == "[]");
      CHECK(lists(none.report.without_effect, "use_liger_kernel"));
    }
    // Each model's function takes the switch of its own activation.
    const std::string config =
        trainer +
        "liger_kernel_config: {swiglu: false, geglu: true, rms_norm: true, rope: false}\n";
    CHECK(policies(of(config, "llama-3.2-1b")) ==
          R"([{"fused_loss": "liger"}, {"liger_kernels": {"glu": false, "rope": false}}])");
    CHECK(policies(of(config, "gemma-2b")) ==
          R"([{"fused_loss": "liger"}, {"liger_kernels": {"rope": false}}])");
    const ImportedScenario few =
        of(trainer +
               "liger_kernel_config: {swiglu: false, rms_norm: false, rope: false, "
               "cross_entropy: false, layer_norm: true, fused_linear_cross_entropy: true}\n",
           "llama-3.2-1b");
    CHECK(policies(few) == R"([{"fused_loss": "liger"}])");
    CHECK(few.report.not_understood.empty());
    const ImportedScenario off =
        of("output_dir: o\nuse_liger_kernel: false\nliger_kernel_config: {rope: false}\n",
           "llama-3.2-1b");
    CHECK(policies(off) == "[]");
    CHECK(off.report.not_understood.empty());
    const std::string axolotl = "base_model: m\n";
    CHECK(policies(of(axolotl + "liger_rope: true\nliger_swiglu: true\n", "llama-3.2-1b")) ==
          R"([{"liger_kernels": {"rms_norm": false}}])");
    CHECK(policies(of(axolotl + "liger_rms_norm: true\nliger_fused_linear_cross_entropy: true\n",
                      "qwen3-0.6b")) ==
          R"([{"fused_loss": "liger"}, {"liger_kernels": {"glu": false, "rope": false}}])");
    const ImportedScenario unknown = of(axolotl + "liger_rms_norm: true\n", "gpt2");
    CHECK(policies(unknown) == "[]");
    CHECK(lists(unknown.report.without_effect, "liger_rms_norm"));
  }

  TEST_CASE("of a setting with two outcomes one may be left out") {
    // Gemma 2 caps its logits, so that its head and loss are not one kernel here.
    const ImportedScenario imported = import_settings(
        parse_document("output_dir: o\nper_device_train_batch_size: 1\nuse_liger_kernel: true\n",
                       "file.yaml"),
        {.model = "gemma-2-2b", .gpu = "a100-sxm-80gb"}, environment());
    CHECK(policies(imported) == R"([{"liger_kernels": {}}])");
    CHECK(lists(imported.report.not_understood, "use_liger_kernel"));
    const auto& understood = imported.report.understood;
    CHECK(std::any_of(understood.begin(), understood.end(), [](const ImportedSetting& setting) {
      return setting.key == "use_liger_kernel" && setting.outcome == "policies.liger_kernels";
    }));
  }

  TEST_CASE("FSDP casts what it gathers only under mixed precision") {
    const std::string sharded = "fsdp: full_shard\nfsdp_config: {fsdp_version: 2}\n";
    const auto of = [&](const std::string& text) { return read(text + sharded); };
    // The Trainer's and axolotl's bf16 is Accelerate's mixed precision; a model's type alone is
    // not.
    for (const std::string mixed :
         {"output_dir: o\nbf16: true\n", "base_model: m\nbf16: true\n",
          "output_dir: o\nbf16: true\nmodel_init_kwargs: {torch_dtype: bfloat16}\n"}) {
      CAPTURE(mixed);
      CHECK(training(of(mixed)).find(R"("precision": "fp32")") != std::string::npos);
      CHECK(policies(of(mixed)).find(R"("param_dtype": "bf16")") != std::string::npos);
    }
    for (const std::string narrow : {"output_dir: o\nmodel_init_kwargs: {torch_dtype: bfloat16}\n",
                                     "base_model: m\nbfloat16: true\n"}) {
      CAPTURE(narrow);
      CHECK(training(of(narrow)).find(R"("precision": "bf16")") != std::string::npos);
      CHECK(policies(of(narrow)).find("param_dtype") == std::string::npos);
    }
  }

  TEST_CASE("axolotl's losses: its plugin switches cut cross-entropy on, chunks keep logits") {
    CHECK(policies(read("{base_model: m, plugins: "
                        "[axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin]}")) ==
          R"([{"fused_loss": "cut_cross_entropy"}])");
    CHECK(policies(read("{base_model: m, cut_cross_entropy: false, plugins: "
                        "[axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin]}")) ==
          "[]");
    CHECK(policies(read("{base_model: m, chunked_cross_entropy: true}")) ==
          R"([{"chunked_loss": {"chunks": 8, "kind": "kept"}}])");
  }

  TEST_CASE("FSDP's offloading and limit are its own, and Accelerate's mesh divides the GPUs") {
    CHECK(policies(read("{base_model: m, fsdp: [full_shard, auto_wrap], fsdp_config: "
                        "{fsdp_limit_all_gathers: true, fsdp_offload_params: true}}")) ==
          R"([{"fsdp": {"version": 1, "offload": "host", "limit_all_gathers": true}}])");
    const ImportedScenario mesh = read(
        "{distributed_type: FSDP, num_processes: 16, fsdp_config: {fsdp_version: 2}, "
        "parallelism_config: {parallelism_config_dp_replicate_size: 2, "
        "parallelism_config_dp_shard_size: 2, parallelism_config_tp_size: 4, "
        "parallelism_config_cp_size: 1}}");
    CHECK(policies(mesh) ==
          R"([{"fsdp": {"version": 2, "shard": 2}}, {"tensor_parallel": {"size": 4}}])");
    CHECK(mesh.report.not_understood.empty());
    CHECK(as_json(*mesh.scenario.find("hardware")) == R"({"gpu": "a100-sxm-80gb", "count": 16})");
    CHECK(policies(read("{tensor_parallel: {autotp_size: 4}, zero_optimization: {stage: 1}}")) ==
          R"([{"zero": {"stage": 1}}, {"tensor_parallel": {"size": 4}}])");
  }

  TEST_CASE(
      "a step's samples, what is accumulated and the hosts of the GPUs follow from each other") {
    const ImportedScenario machines =
        read("distributed_type: FSDP\nnum_machines: 4\nnum_processes: 16\n", "f.yaml");
    CHECK(as_json(*machines.scenario.find("hardware")) ==
          R"({"gpu": "a100-sxm-80gb", "count": 16, "node": 4})");
    const auto batches = [](const std::string& text) {
      return training(
          read("zero_optimization: {stage: 1}\ntrain_batch_size: 64\n" + text, "f.yaml"));
    };
    CHECK(batches("gradient_accumulation_steps: 4\n") ==
          R"({"accumulate": 4, "precision": "fp32", "micro_batch": 16})");
    CHECK(batches("train_micro_batch_size_per_gpu: 4\n") ==
          R"({"micro_batch": 4, "precision": "fp32", "accumulate": 16})");
    CHECK(batches("") == R"({"precision": "fp32", "micro_batch": 64})");
    // axolotl's are those of one GPU, rounded down, and what is accumulated comes first.
    const auto axolotl = [](const std::string& text) {
      return training(read("base_model: gpt2\nmicro_batch_size: 4\n" + text, "f.yaml"));
    };
    CHECK(axolotl("batch_size: 9\n").find(R"("accumulate": 2)") != std::string::npos);
    CHECK(axolotl("batch_size: 4\ngradient_accumulation_steps: 3\n").find(R"("accumulate": 3)") !=
          std::string::npos);
  }

  TEST_CASE("mistakes in an imported file name its line, column and key") {
    const auto refused = [](const std::string& text, const std::string& reason) {
      CAPTURE(text);
      const std::string error = error_of([&] { static_cast<void>(read(text, "f.yaml")); });
      CHECK(error.find(reason) != std::string::npos);
    };
    refused("zero_optimization:\n  stage: 4\n", "f.yaml:2:10: zero_optimization.stage: ");
    refused("output_dir: o\nper_device_train_batch_size: many\n",
            "f.yaml:2:30: per_device_train_batch_size: expected an integer");
    refused("zero_optimization: {stage: 2, reduce_bucket_size: 1.5}", "expected an integer");
    refused("output_dir: o\nbf16: [true]\n", "f.yaml:2:7: bf16: expected true or false");
    refused("base_model: m\nadapter: qlora\n", "f.yaml:2:1: adapter: qlora needs load_in_4bit");
    refused("base_model: m\nadapter: lora\nload_in_4bit: true\nload_in_8bit: true\n",
            "load_in_4bit and load_in_8bit are both set");
    refused("colour: red\n", "none of the keys");
    // 64 samples are not 3 x 8; 60 have no whole third of 8; one GPU takes 4 x 2 = 8 of 7.
    const std::string zero = "zero_optimization: {stage: 1}\ngradient_accumulation_steps: ";
    refused(zero + "3\ntrain_batch_size: 64\n", "f.yaml:3:1: 64 samples a step cannot be divided");
    refused(zero + "2\ntrain_micro_batch_size_per_gpu: 4\ntrain_batch_size: 7\n",
            "7 samples a step cannot be divided into micro-batches of 4");
    refused("zero_optimization: {stage: 1}\nbf16: {enabled: true}\nfp16: {enabled: true}\n",
            "fp16 contradicts bf16");
    refused(zero + "4294967296\ntrain_micro_batch_size_per_gpu: 4294967296\ntrain_batch_size: 64\n",
            "64 samples a step cannot be divided");
    refused("output_dir: o\nbf16: true\nfp16: true\n", "f.yaml:3:7: fp16 contradicts bf16");
    refused("distributed_type: FSDP\nnum_machines: 3\nnum_processes: 16\n",
            "f.yaml:2:1: 16 GPUs cannot be divided among 3 machines");
    refused("{model: gpt2, hardware: h100}", "is a scenario already");
    // A recipe of another tool that has a model is none.
    refused("{model: {_component_: torchtune.models.llama3.llama3_8b}}", "none of the keys");
    refused("[1, 2]", "expected a mapping");
  }

  TEST_CASE("what this Tidemark cannot simulate is left out, with its reason") {
    const auto imported_as = [](const std::string& text) {
      return import_settings(parse_document(text, "f.yaml"), kGpt2, environment());
    };
    for (const char* text : {kDeepSpeed, kTrainingArguments, kAccelerate, kAxolotl, kScript}) {
      const ImportedScenario imported = imported_as(text);
      // The written text is a scenario, and the same one.
      const std::string yaml = scenario_yaml(imported, "f.yaml");
      const Value again = parse_document(yaml, "s.yaml");
      CHECK(error_of([&] { static_cast<void>(decode_scenario(again, environment())); }) ==
            "accepted");
      CHECK(as_json(*again.find("policies")) == as_json(*imported.scenario.find("policies")));
      for (const ImportedSetting& setting : imported.report.not_understood)
        CHECK(yaml.find(setting.key) != std::string::npos);
    }
    const ImportedScenario imported =
        imported_as("{output_dir: o, optim: adamw_torch, gradient_accumulation_steps: 100000}");
    CHECK(lists(imported.report.not_understood, "gradient_accumulation_steps"));
    CHECK(imported.scenario.find("training")->find("accumulate") == nullptr);
  }
}

TEST_SUITE("property") {
  TEST_CASE("every key of a file is reported exactly once") {
    for (const char* text : {kDeepSpeed, kTrainingArguments, kAccelerate, kAxolotl, kScript}) {
      const Value file = parse_document(text, "f.yaml");
      const ImportedScenario imported = read_settings(file, kGpt2);
      std::vector<std::string> reported;
      for (const auto* list : {&imported.report.understood, &imported.report.without_effect,
                               &imported.report.not_understood}) {
        for (const ImportedSetting& setting : *list)
          reported.push_back(setting.key);
      }
      std::vector<std::string> keys;
      collect_keys(file, "", keys);
      for (const std::string& key : keys) {
        CAPTURE(key);
        const auto times = std::count(reported.begin(), reported.end(), key);
        // A group reports by its keys, or as a whole.
        const bool inside = std::any_of(reported.begin(), reported.end(), [&](const auto& other) {
          return other.starts_with(key + '.') || key.starts_with(other + '.');
        });
        CHECK(times + (inside ? 1 : 0) == 1);
      }
    }
  }
}

}  // namespace
}  // namespace tidemark::import_settings_test
