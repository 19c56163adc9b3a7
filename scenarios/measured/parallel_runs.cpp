// Published runs on many GPUs, each said as the system that it names ran it. What a table cannot
// say is a rule of the system, with the version from which it holds.
//
// torchtitan has FSDP 2 in blocks. Until 2024 the root had embedding and head, and the last block
// stayed gathered; since then both are units of their own (parallelize_llama.py). Until its pull
// request 391 of June 2024 the loop kept the model's fp32 logits through backward. Until 2024
// blocks alone were compiled, since then the loss as well. The optimizer is fused since 2025,
// unless a row says so before. Context parallelism gathers keys and values.
//
// atorch has FSDP 1 of fp32 units under torch.autocast; its DeepSpeed pipelines have no sequence
// parallelism. Thunder's benchmark trains litgpt's models, and its loop names the logits until the
// next step and takes the loss outside of what is compiled.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "scenarios/measured/published_rows.hpp"

namespace tidemark {
namespace parallel_runs_detail {
namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

enum class System : std::uint8_t { kTorchtitan, kAtorch, kThunder, kMegatron, kOther };

System system_of(const std::string& source) {
  // torchao's tables are runs of torchtitan.
  if (contains(source, "torchtitan") || source.starts_with("pytorch/ao"))
    return System::kTorchtitan;
  if (contains(source, "dlrover")) return System::kAtorch;
  if (contains(source, "thunder")) return System::kThunder;
  return contains(source, "Megatron") ? System::kMegatron : System::kOther;
}

// Returns the number of the pull request or issue of torchtitan that a source names, as in
// "pytorch/torchtitan#165"; nullopt for a document. Throws NotMapped for the thread of another
// repository, whose numbers say nothing of torchtitan's version.
std::optional<int> thread_of(const std::string& source) {
  constexpr std::string_view kThread = "pytorch/torchtitan#";
  if (!contains(source, "#")) return std::nullopt;
  int number = 0;
  const char* const end = source.data() + source.size();
  const bool read = source.starts_with(kThread) &&
                    std::from_chars(source.data() + kThread.size(), end, number).ec == std::errc{};
  if (!read || number < 1) throw NotMapped{"a version of torchtitan that is not stated"};
  return number;
}

constexpr int kDropsLogits = 391;    // torchtitan: "del logits", June 2024
constexpr int kSplitsTheRoot = 800;  // torchtitan: the first pull requests of 2025

bool is_early_torchtitan(const std::string& source) {
  const std::optional<int> thread = thread_of(source);
  return thread ? *thread < kSplitsTheRoot : contains(source, "docs/performance");
}

std::string model_of(const RowReader& row, System system) {
  const std::string& name = row.text("model");
  std::string_view preset;
  if (contains(name, "Llama") || contains(name, "Mistral"))
    preset = system == System::kThunder ? "litgpt" : "llama-2-7b";
  if (name.starts_with("Qwen3-8B")) preset = "qwen3-8b";
  if (contains(name, "stablecode-completion-alpha") || contains(name, "StableLM-Alpha"))
    preset = "stablelm-base-alpha-3b";
  if (preset.empty()) throw NotMapped{fmt::format("model {}", name)};
  return fmt::format(
      "{{preset: {}, layers: {}, width: {}, heads: {}, kv_heads: {}{}, ffn: {}, vocab: {}, "
      "sequence: "
      "{}}}",
      preset, row.count("layers"), row.count("hidden"), row.count("heads"),
      row.text("kv_heads").empty() ? row.count("heads") : row.count("kv_heads"),
      preset == "llama-2-7b"
          ? ""
          : fmt::format(", head_width: {}", row.count("hidden") / row.count("heads")),
      row.count("ffn"), row.count("vocab"), row.count("seq"));
}

// Returns the FSDP policy of torchtitan at the time of the row.
std::string torchtitan_shards(const RowReader& row) {
  const bool resharded = row.text("zero") == "3";
  const std::string whether = resharded ? "true" : "false";
  if (contains(row.text("parallelism"), "FSDP1"))
    return fmt::format(
        "fsdp: {{version: 1, reshard_after_forward: {}, param_dtype: bf16, reduce_dtype: fp32}}",
        whether);
  const std::string units =
      is_early_torchtitan(row.text("source"))
          ? fmt::format("keep_gathered: [layers.{}]", row.count("layers") - 1)
          : std::string("units: [embed_tokens, blocks, [norm, lm_head]], keep_gathered: [lm_head]");
  return fmt::format(
      "fsdp: {{version: 2, reshard_after_forward: {}, param_dtype: bf16, reduce_dtype: fp32, {}}}",
      whether, units);
}

std::string shards_of(const RowReader& row, System system) {
  const std::string& stage = row.text("zero");
  if (contains(row.text("parallelism"), "DeepSpeed") || contains(row.text("parallelism"), "ZeRO"))
    return fmt::format("zero: {{stage: {}}}", stage);
  if (system == System::kMegatron) return "distributed_optimizer: {}";
  if (system == System::kTorchtitan) return torchtitan_shards(row);
  const std::int64_t group = ranks_of(row, "zero_group");
  const std::int64_t ranks = ranks_of(row, "dp") * ranks_of(row, "cp");
  const bool casts = row.text("precision_norm") == "bf16_fsdp";
  return fmt::format("fsdp: {{version: {}, reshard_after_forward: {}{}{}}}",
                     contains(row.text("parallelism"), "FSDP2") ? 2 : 1,
                     stage == "3" ? "true" : "false", casts ? ", param_dtype: bf16" : "",
                     group > 1 && group < ranks ? fmt::format(", shard: {}", group) : "");
}

std::string pipeline_of(const RowReader& row) {
  constexpr auto kSchedules = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"", "1f1b"},
       {"1f1b", "1f1b"},
       {"gpipe", "gpipe"},
       {"GPipe", "gpipe"},
       {"interleaved", "interleaved"},
       {"Interleaved1F1B", "interleaved"}});
  if (ranks_of(row, "accumulation") < 2)
    throw NotMapped{"the micro-batches of a pipeline are not stated"};
  for (const auto& [published, schedule] : kSchedules) {
    if (row.text("schedule") != published) continue;
    const std::int64_t chunks = ranks_of(row, "vpp");
    return fmt::format("pipeline: {{size: {}, schedule: {}{}}}", row.count("pp"), schedule,
                       chunks > 1 ? fmt::format(", chunks: {}", chunks) : "");
  }
  throw NotMapped{fmt::format("schedule {}", row.text("schedule"))};
}

std::string recompute_of(const RowReader& row) {
  constexpr auto kPolicies = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"none", ""},
       {"full", "checkpoint_every: {period: 1}"},
       {"selective", "megatron_selective: {}"},
       {"selective_layer", "checkpoint: {every_other: 2}"},
       {"selective_op", "selective: {save: [attention, linear], every_other: [linear]}"}});
  for (const auto& [published, policy] : kPolicies) {
    if (row.text("recompute_norm") == published) return std::string(policy);
  }
  throw NotMapped{fmt::format("recomputation {}", row.text("recompute_norm"))};
}

// Returns "lora: ..." of "LoRA r=16 on q,k,v,o"; empty without adapters.
std::string lora_of(const RowReader& row) {
  const std::string& other = row.text("other");
  const std::size_t start = other.find("LoRA r=");
  if (start == std::string::npos) {
    if (contains(other, "LoRA") || contains(other, "lora"))
      throw NotMapped{"adapters that are not stated"};
    return {};
  }
  const std::size_t on = other.find(" on ", start);
  if (on == std::string::npos) throw NotMapped{"adapters that are not stated"};
  std::string targets;
  const std::size_t end = std::min(other.find(' ', on + 4), other.size());
  for (std::size_t i = on + 4; i < end; i += 2)
    targets += fmt::format("{}{}_proj", targets.empty() ? "" : ", ", other[i]);
  return fmt::format("lora: {{rank: {}, targets: [{}]}}", std::atoi(other.c_str() + start + 7),
                     targets);
}

std::vector<std::string> policies_of(const RowReader& row, System system, int gpus) {
  std::vector<std::string> policies;
  if (ranks_of(row, "ep") > 1) throw NotMapped{"expert parallelism"};
  if (ranks_of(row, "tp") > 1) {
    const bool sequence = row.text("sp") != "0" && system != System::kAtorch;
    policies.push_back(fmt::format("tensor_parallel: {{size: {}, sequence: {}}}", row.count("tp"),
                                   sequence ? "true" : "false"));
  }
  if (ranks_of(row, "cp") > 1)
    policies.push_back(fmt::format("context_parallel: {{size: {}, kind: {}}}", row.count("cp"),
                                   system == System::kTorchtitan ? "all_gather" : "ring"));
  if (ranks_of(row, "pp") > 1) policies.push_back(pipeline_of(row));
  const std::string& stage = row.text("zero");
  const bool shards = gpus > 1 && (stage == "1" || stage == "2" || stage == "3");
  if (!shards && stage != "0" && ranks_of(row, "dp") > 1)
    throw NotMapped{"data parallelism whose shards are not stated"};
  if (!shards && row.text("precision_norm") == "bf16_fsdp")
    throw NotMapped{"bf16_fsdp without shards"};
  if (shards) policies.push_back(shards_of(row, system));
  for (std::string policy : {lora_of(row), recompute_of(row)}) {
    if (!policy.empty()) policies.push_back(std::move(policy));
  }
  return policies;
}

std::string precision_of(const RowReader& row) {
  const std::string& precision = row.text("precision_norm");
  // "bf16 + mxfp8 linears"; "bf16 + float8 linears" are fp8_fsdp.
  if (contains(row.text("precision"), " linears")) throw NotMapped{"linear layers of 8 or 4 bits"};
  if (precision == "bf16_fsdp") return "fp32";
  if (precision == "fp16_or_bf16_mixed") return "bf16_mixed";
  constexpr auto kSame =
      std::to_array<std::string_view>({"fp32", "tf32", "fp16_autocast", "bf16_autocast",
                                       "fp16_mixed", "bf16_mixed", "bf16", "fp16", "fp8_mixed"});
  for (const std::string_view same : kSame) {
    if (precision == same) return precision;
  }
  throw NotMapped{fmt::format("precision {}", precision)};
}

std::string optimizer_with(const RowReader& row, System system) {
  const bool fused = contains(row.text("optimizer"), "used") ||
                     contains(row.text("other"), "used") ||
                     (system == System::kTorchtitan && !is_early_torchtitan(row.text("source")));
  const std::string name = optimizer_of(row);
  if (name != "adam" && name != "adamw") return name;
  return fmt::format("{{name: {}, implementation: {}}}", name, fused ? "fused" : "foreach");
}

std::string training_of(const RowReader& row, System system) {
  std::string training =
      fmt::format("micro_batch: {}, accumulate: {}, sequence: {}, precision: {}, optimizer: {}",
                  row.count("micro_batch"), ranks_of(row, "accumulation"), row.count("seq"),
                  precision_of(row), optimizer_with(row, system));
  if (contains(row.text("other"), "compile") || contains(row.text("other"), "inductor")) {
    const bool blocks = system == System::kThunder ||
                        (system == System::kTorchtitan && is_early_torchtitan(row.text("source")));
    training += blocks ? ", compile: regional" : ", compile: inductor";
  }
  if (system == System::kTorchtitan) {
    const std::optional<int> thread = thread_of(row.text("source"));
    if (thread && *thread < kDropsLogits) training += ", hold_output: fp32";
  }
  if (system == System::kThunder) training += ", hold_output: true";
  return training;
}

std::string scenario_of(const RowReader& row, const PublishedDevice& device) {
  const System system = system_of(row.text("source"));
  if (row.text("metric_norm") == "tflops_per_gpu" && row.text("recompute_norm") != "none")
    throw NotMapped{"TFLOP/s with recomputation, counted or not"};
  return fmt::format("{{version: 1, model: {}, hardware: {}, training: {{{}}}, policies: {}}}",
                     model_of(row, system), hardware_of(device), training_of(row, system),
                     policy_list(policies_of(row, system, device.count)));
}

}  // namespace
}  // namespace parallel_runs_detail

bool is_parallel_table(const CsvTable& table) {
  return table.has("schedule") && table.has("zero_group") && !table.has("micro_batch_n");
}

MeasuredSteps read_parallel_runs(const CsvTable& table, const StepTableOptions& options) {
  return read_published_rows(table, options, parallel_runs_detail::scenario_of);
}

}  // namespace tidemark
