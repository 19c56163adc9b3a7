// Published training steps by their machine-readable columns.
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "scenarios/measured/published_rows.hpp"

namespace tidemark {
namespace published_steps_detail {
namespace {

bool is_of_litgpt(const RowReader& row) {
  return row.text("source").starts_with("Lightning-AI/litgpt");
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
  if (family == "llama" && !is_of_litgpt(row)) {
    return fmt::format(
        "{{preset: llama-2-7b, layers: {}, width: {}, heads: {}, kv_heads: {}, ffn: {}, "
        "vocab: {}, sequence: {}}}",
        n("layers_n"), n("hidden_n"), heads, n("kv_heads_n"), n("ffn_n"), n("vocab_n"), n("seq_n"));
  }
  // StableLM alpha is a GPT-NeoX, without a gate in its feed-forward layers. litgpt writes Phi-3
  // with the layers of Llama.
  const char* const phi3 = is_of_litgpt(row) ? "litgpt" : "phi-3-mini";
  const auto decoders = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"llama", "litgpt"}, {"stablelm", "stablelm-base-alpha-3b"}, {"phi3", phi3}});
  for (const auto& [published, preset] : decoders) {
    if (published != family) continue;
    return fmt::format(
        "{{preset: {}, layers: {}, width: {}, heads: {}, kv_heads: {}, head_width: {}, ffn: {}, "
        "vocab: {}, sequence: {}}}",
        preset, n("layers_n"), n("hidden_n"), heads, n("kv_heads_n"), n("head_dim_n"), n("ffn_n"),
        n("vocab_n"), n("seq_n"));
  }
  if (family == "bert") {
    return fmt::format("{{preset: bert-large, layers: {}, width: {}, heads: {}, vocab: {}}}",
                       n("layers_n"), n("hidden_n"), heads, n("vocab_n"));
  }
  throw NotMapped{fmt::format("model family {}", family)};
}

// The modules of a row with adapters. Where all products have one, their modules are named; queries
// and values alone are peft's default. litgpt has one projection for queries, keys and values, with
// a pair of matrices for each of them that is adapted (LoRAQKVLinear).
std::string adapted_modules_of(const RowReader& row) {
  const bool all = row.text("lora_targets") == "q+k+v+o+mlp+head";
  if (!all && row.text("lora_targets") != "q+v")
    throw NotMapped{fmt::format("adapters on {}", row.text("lora_targets"))};
  if (!is_of_litgpt(row)) {
    return all ? ", targets: [q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, "
                 "lm_head]"
               : "";
  }
  const bool neox = row.text("model_family") == "stablelm";
  if (all) {
    return neox ? ", targets: [query_key_value, dense, dense_h_to_4h, dense_4h_to_h, embed_out], "
                  "parts: [q, k, v]"
                : ", targets: [qkv, attn.proj, fc_1, fc_2, mlp.proj, lm_head], parts: [q, k, v]";
  }
  return neox ? ", targets: [query_key_value], parts: [q, v]" : ", targets: [qkv], parts: [q, v]";
}

// The adapters of a row. litgpt's have the model's type and a dropout of 0.05. It takes
// bitsandbytes 0.42 alone (lora.py warns of others), and Lightning Fabric replaces every linear
// layer, the head's as well.
std::string lora_of(const RowReader& row) {
  const bool quantised = row.text("quantised") != "none";
  const std::string targets = adapted_modules_of(row);
  const char* const litgpt = is_of_litgpt(row) ? ", dtype: bf16, dropout: 0.05" : "";
  std::string base = quantised ? ", base: " + row.text("quantised") : "";
  if (quantised && is_of_litgpt(row))
    base += ", implementation: bitsandbytes-0.42, quantise_head: true";
  return fmt::format("lora: {{rank: {}{}{}{}}}", row.count("lora_rank"), targets, litgpt, base);
}

std::vector<std::string> policies_of(const RowReader& row, bool sharded_bf16, int gpus) {
  std::vector<std::string> policies;
  if (ranks_of(row, "pp") > 1) throw NotMapped{"pipelines, whose schedule the columns do not say"};
  if (ranks_of(row, "ep") > 1) throw NotMapped{"expert parallelism"};
  if (row.text("cpu_offload") != "none" && !row.text("cpu_offload").empty())
    throw NotMapped{"offloading to the host"};
  const bool sequence = row.text("sp") == "1";
  if (ranks_of(row, "tp") > 1) {
    policies.push_back(fmt::format("tensor_parallel: {{size: {}, sequence: {}}}",
                                   ranks_of(row, "tp"), sequence ? "true" : "false"));
  }
  if (ranks_of(row, "cp") > 1)
    policies.push_back(fmt::format("context_parallel: {{size: {}}}", ranks_of(row, "cp")));
  const std::string& stage = row.text("zero");
  const std::string mixed = sharded_bf16 ? ", param_dtype: bf16" : "";
  // Composer, in which llm-foundry trains MPT, gathers behind a unit's backward unless it is told
  // otherwise.
  const std::string gathers = row.text("model_family") == "mpt" ? ", prefetch: post" : "";
  // litgpt's loop reduces no gradients before the last micro-batch (fabric.no_backward_sync).
  const char* const unsynced =
      is_of_litgpt(row) && ranks_of(row, "accumulation") > 1 ? ", no_sync: true" : "";
  if (gpus > 1 && stage == "3")
    policies.push_back(fmt::format("fsdp: {{version: 1{}{}{}}}", mixed, gathers, unsynced));
  if (gpus > 1 && stage == "2") {
    policies.push_back(
        fmt::format("fsdp: {{version: 1, reshard_after_forward: false{}{}}}", mixed, gathers));
  }
  if (gpus > 1 && stage == "1") policies.emplace_back("zero: {stage: 1}");
  const std::string& finetune = row.text("finetune");
  if (finetune == "lora" || finetune == "lora_lm") {
    policies.push_back(lora_of(row));
  } else if (finetune != "pretrain" && finetune != "full") {
    throw NotMapped{fmt::format("fine-tuning by {}", finetune)};
  }
  // litgpt's scripts for adapters make logits of 128 tokens at a time (lm_head_chunk_size).
  if (is_of_litgpt(row) && finetune.starts_with("lora")) {
    policies.push_back(fmt::format("chunked_loss: {{kind: kept_fp32, chunks: {}}}",
                                   (row.count("seq_n") + 127) / 128));
  }
  if (std::string recompute = recompute_of(row); !recompute.empty())
    policies.push_back(std::move(recompute));
  return policies;
}

// The usual length of a batch. NVIDIA's pre-training of BERT reads sequences of up to 512 tokens
// from bins of 64 (phase2_bin_size of its run_pretraining.sh), so that a batch is as long as its
// bin; at 512 half of Wikipedia's tokens would be padding (Krell et al. 2021, Efficient Sequence
// Packing without Cross-contamination). Shorter sequences are not binned, and a peak is that of the
// last bin.
std::int64_t length_of(const RowReader& row) {
  constexpr std::int64_t kBinned = 512;
  constexpr std::int64_t kBin = 64;
  const std::int64_t longest = row.count("seq_n");
  const bool binned = row.text("model_family") == "bert" && row.text("finetune") == "pretrain" &&
                      row.text("source").starts_with("NVIDIA/DeepLearningExamples") &&
                      longest == kBinned;
  const bool is_time = row.text("metric_norm").find("second") != std::string::npos ||
                       row.text("metric_norm") == "step_time";
  return binned && is_time ? longest / 2 + kBin / 2 : longest;
}

std::string scenario_of(const RowReader& row, const PublishedDevice& device) {
  const std::string& published = row.text("precision_norm");
  const bool sharded_bf16 = published == "bf16_fsdp";
  const std::string precision = published == "nf4_lora" ? "bf16" : precision_of(row);
  const std::vector<std::string> policies = policies_of(row, sharded_bf16, device.count);
  if (sharded_bf16 && policies.empty()) throw NotMapped{"bf16_fsdp without shards"};
  std::string training = fmt::format(
      "micro_batch: {}, accumulate: {}, precision: {}, optimizer: {}", row.count("micro_batch_n"),
      ranks_of(row, "accumulation"), precision, optimizer_of(row));
  if (!row.text("seq_n").empty()) training += fmt::format(", sequence: {}", length_of(row));
  if (row.text("attention") == "math") training += ", attention: math";
  // MPT trains without dropout (resid_pdrop, emb_pdrop and attn_pdrop of llm-foundry are 0), with
  // FlashAttention 1 in Triton (its tables are of PyTorch 2.0 and 2.1).
  if (row.text("model_family") == "mpt") training += ", dropout: 0, framework: torch-2.1-cuda";
  if (row.text("model_family") == "gpt") training += ", dropout: 0.1";
  // litgpt's loop names the logits until the next micro-batch has its own. The scripts behind its
  // resource tables of 2023 took the longest sample first (longest_seq_ix), with none before it.
  if (is_of_litgpt(row)) {
    const bool longest_first = row.text("source").find("resource-tables") != std::string::npos;
    training += longest_first ? ", hold_output: true"
                              : ", hold_output: true, hold_output_until: next_output";
  }
  if (row.text("compile") == "1") training += ", compile: inductor";
  if (precision == "fp16_autocast" || precision == "fp16_mixed")
    training += ", loss_scale: dynamic";
  const bool is_16_bit = precision.starts_with("fp16") || precision.starts_with("bf16");
  if (is_16_bit && row.text("other").find("NHWC for AMP") != std::string::npos)
    training += ", memory_format: channels_last";
  return fmt::format("{{version: 1, model: {}, hardware: {}, training: {{{}}}, policies: {}}}",
                     model_of(row), hardware_of(device), training, policy_list(policies));
}

}  // namespace
}  // namespace published_steps_detail

MeasuredSteps read_published_steps(const CsvTable& table, const StepTableOptions& options) {
  if (is_parallel_table(table)) return read_parallel_runs(table, options);
  if (is_adapter_table(table)) return read_adapter_runs(table, options);
  return read_published_rows(table, options, published_steps_detail::scenario_of);
}

}  // namespace tidemark
