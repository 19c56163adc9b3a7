// Published training steps by their machine-readable columns.
#include <array>
#include <optional>

#include <fmt/format.h>

#include "hwprofiles/measured/row_reader.hpp"
#include "scenarios/measured/step_tables.hpp"

namespace tidemark {
namespace published_steps_detail {
namespace {

struct MetricName {
  std::string_view name;
  StepMetric metric;
  bool memory;
};
constexpr auto kMetrics = std::to_array<MetricName>(
    {{"step_time", StepMetric::kStepTime, false},
     {"tokens_per_second_per_gpu", StepMetric::kTokensPerSecondPerGpu, false},
     {"samples_per_second_per_gpu", StepMetric::kSamplesPerSecondPerGpu, false},
     {"tflops_per_gpu", StepMetric::kFlopsPerGpu, false},
     {"peak_allocated", StepMetric::kPeakAllocated, true},
     {"peak_reserved", StepMetric::kPeakReserved, true},
     {"peak_active", StepMetric::kPeakActive, true},
     {"device_used", StepMetric::kDeviceUsed, true},
     {"out_of_memory", StepMetric::kDoesNotFit, true}});

// A row that is right and cannot be said as a scenario.
struct NotMapped {
  std::string reason;
};

std::string source_of(const std::string& source) {
  return source.substr(0, source.find_first_of("@ "));
}

// The model of a row: a preset with other sizes.
std::string model_of(const RowReader& row) {
  const std::string& family = row.text("model_family");
  if (family == "resnet50") return "resnet50";
  const auto n = [&](const char* column) { return row.count(column); };
  const std::int64_t heads = n("heads_n");
  const bool plain_heads = n("head_dim_n") * heads == n("hidden_n");
  if (!plain_heads) throw NotMapped{"head widths that are not hidden / heads"};
  if (family == "gpt" || family == "mpt") {
    // GELU is one kernel in llm-foundry, Megatron-LM and flash-attention, not Hugging Face's chain.
    return fmt::format("{{preset: gpt, layers: {}, width: {}, heads: {}, vocab: {}, sequence: {}}}",
                       n("layers_n"), n("hidden_n"), heads, n("vocab_n"), n("seq_n"));
  }
  if (family == "llama" || family == "stablelm") {
    return fmt::format(
        "{{preset: llama-2-7b, layers: {}, width: {}, heads: {}, kv_heads: {}, ffn: {}, "
        "vocab: {}, sequence: {}}}",
        n("layers_n"), n("hidden_n"), heads, n("kv_heads_n"), n("ffn_n"), n("vocab_n"), n("seq_n"));
  }
  if (family == "bert") {
    return fmt::format("{{preset: bert-large, layers: {}, width: {}, heads: {}, vocab: {}}}",
                       n("layers_n"), n("hidden_n"), heads, n("vocab_n"));
  }
  throw NotMapped{fmt::format("model family {}", family)};
}

std::string precision_of(const RowReader& row, bool& sharded_bf16) {
  const std::string& precision = row.text("precision_norm");
  sharded_bf16 = precision == "bf16_fsdp";
  if (sharded_bf16) return "fp32";
  if (precision == "fp16_or_bf16_mixed") return "bf16_mixed";
  constexpr auto kSame =
      std::to_array<std::string_view>({"fp32", "tf32", "fp16_autocast", "bf16_autocast",
                                       "fp16_mixed", "bf16_mixed", "bf16", "fp16"});
  for (const std::string_view same : kSame) {
    if (precision == same) return precision;
  }
  if (precision == "nf4_lora") return "bf16";
  throw NotMapped{fmt::format("precision {}", precision)};
}

std::int64_t ranks(const RowReader& row, const char* column) {
  const std::string& cell = row.text(column);
  return cell.empty() ? 1 : row.count(column);
}

std::string join_policies(const std::vector<std::string>& policies) {
  return fmt::format("[{}]", fmt::join(policies, ", "));
}

std::vector<std::string> policies_of(const RowReader& row, bool sharded_bf16, int gpus) {
  std::vector<std::string> policies;
  if (ranks(row, "pp") > 1) throw NotMapped{"pipelines, whose schedule the columns do not say"};
  if (ranks(row, "ep") > 1) throw NotMapped{"expert parallelism"};
  if (row.text("cpu_offload") != "none" && !row.text("cpu_offload").empty())
    throw NotMapped{"offloading to the host"};
  const bool sequence = row.text("sp") == "1";
  if (ranks(row, "tp") > 1) {
    policies.push_back(fmt::format("tensor_parallel: {{size: {}, sequence: {}}}", ranks(row, "tp"),
                                   sequence ? "true" : "false"));
  }
  if (ranks(row, "cp") > 1)
    policies.push_back(fmt::format("context_parallel: {{size: {}}}", ranks(row, "cp")));
  const std::string& stage = row.text("zero");
  const std::string mixed = sharded_bf16 ? ", param_dtype: bf16" : "";
  // Composer, in which llm-foundry trains MPT, gathers behind a unit's backward unless it is told
  // otherwise.
  const std::string gathers = row.text("model_family") == "mpt" ? ", prefetch: post" : "";
  if (gpus > 1 && stage == "3")
    policies.push_back(fmt::format("fsdp: {{version: 1{}{}}}", mixed, gathers));
  if (gpus > 1 && stage == "2")
    policies.push_back(
        fmt::format("fsdp: {{version: 1, reshard_after_forward: false{}{}}}", mixed, gathers));
  if (gpus > 1 && stage == "1") policies.emplace_back("zero: {stage: 1}");
  const std::string& finetune = row.text("finetune");
  if (finetune == "lora" || finetune == "lora_lm") {
    const bool quantised = row.text("quantised") != "none";
    policies.push_back(fmt::format("lora: {{rank: {}{}}}", row.count("lora_rank"),
                                   quantised ? ", base: " + row.text("quantised") : ""));
  } else if (finetune != "pretrain" && finetune != "full") {
    throw NotMapped{fmt::format("fine-tuning by {}", finetune)};
  }
  const std::string& recompute = row.text("recompute_norm");
  if (recompute == "full") policies.emplace_back("checkpoint_every: {period: 1}");
  if (recompute == "selective_attention") policies.emplace_back("megatron_selective: {}");
  if (recompute == "selective_op") throw NotMapped{"recomputation selective_op"};
  return policies;
}

std::string optimizer_of(const RowReader& row) {
  const std::string& name = row.text("optimizer_norm");
  if (name == "momentum") return "{name: sgd, momentum: 0.9}";
  return name.empty() ? "adamw" : name;
}

// A time is that of a step whose memory suffices, and a peak is not cut off: the device gets room,
// except where a row says that the step did not fit.
constexpr const char* kRoom = ", hbm: {capacity: 8TiB}";

std::string scenario_of(const RowReader& row, const std::string& gpu, int gpus, bool room) {
  bool sharded_bf16 = false;
  const std::string precision = precision_of(row, sharded_bf16);
  const std::vector<std::string> policies = policies_of(row, sharded_bf16, gpus);
  if (sharded_bf16 && policies.empty()) throw NotMapped{"bf16_fsdp without shards"};
  std::string training = fmt::format(
      "micro_batch: {}, accumulate: {}, precision: {}, optimizer: {}", row.count("micro_batch_n"),
      ranks(row, "accumulation"), precision, optimizer_of(row));
  if (!row.text("seq_n").empty()) training += fmt::format(", sequence: {}", row.count("seq_n"));
  if (row.text("attention") == "math") training += ", attention: math";
  // MPT trains without dropout (resid_pdrop, emb_pdrop and attn_pdrop of llm-foundry are 0), with
  // FlashAttention 1 in Triton (its tables are of PyTorch 2.0 and 2.1).
  if (row.text("model_family") == "mpt") training += ", dropout: 0, framework: torch-2.1-cuda";
  if (row.text("model_family") == "gpt") training += ", dropout: 0.1";
  if (row.text("compile") == "1") training += ", compile: inductor";
  if (precision == "fp16_autocast" || precision == "fp16_mixed")
    training += ", loss_scale: dynamic";
  return fmt::format(
      "{{version: 1, model: {}, hardware: {{gpu: '{}', count: {}{}}}, training: {{{}}}, policies: "
      "{}}}",
      model_of(row), gpu, gpus, room ? kRoom : "", training, join_policies(policies));
}

}  // namespace
}  // namespace published_steps_detail

MeasuredSteps read_published_steps(const CsvTable& table, const StepTableOptions& options) {
  using published_steps_detail::NotMapped;
  MeasuredSteps result{.file = table.file, .steps = {}, .refused = {}, .other = {}};
  for (const CsvRow& row : table.rows) {
    const RowReader reader(table, row);
    try {
      const std::string& name = reader.text("metric_norm");
      const published_steps_detail::MetricName* metric = nullptr;
      for (const auto& known : published_steps_detail::kMetrics) {
        if (known.name == name) metric = &known;
      }
      if (metric == nullptr) throw NotMapped{fmt::format("metric {}", name)};
      if (reader.text(metric->memory ? "usable_memory" : "usable_time") != "1")
        throw NotMapped{"rows marked as not usable for their metric"};
      if (reader.text("value_si").empty()) throw NotMapped{"values without a unit"};
      const double value = reader.positive("value_si");
      const auto gpus = static_cast<int>(reader.count("n_gpus"));
      const std::string& gpu = options.gpu.empty() ? reader.text("gpu_profile") : options.gpu;
      MeasuredStep step{
          .group = fmt::format("{} {}", published_steps_detail::source_of(reader.text("source")),
                               reader.text("precision_norm")),
          .text = fmt::format("{} on {} {}", reader.text("model"), gpus, reader.text("gpu")),
          .line = row.line,
          .scenario = published_steps_detail::scenario_of(
              reader, gpu, gpus, metric->metric != StepMetric::kDoesNotFit),
          .metric = metric->metric,
          .value = value,
          .gpus = gpus};
      result.steps.push_back(std::move(step));
    } catch (const RowFault& fault) {
      result.refused.push_back({.file = table.file, .line = row.line, .problem = fault.problem});
    } catch (const NotMapped& reason) {
      ++result.other[reason.reason];
    }
  }
  return result;
}

}  // namespace tidemark
