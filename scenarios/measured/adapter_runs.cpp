// Published fine-tuning on one GPU, full or by adapters, each said as its library ran it.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "scenarios/measured/published_rows.hpp"

namespace tidemark {
namespace adapter_runs_detail {
namespace {

enum class Library {
  kTorchtune,
  kTrainer,  // transformers' Trainer, in its guide to training on one GPU of 2022
};

Library library_of(const RowReader& row) {
  const std::string& source = row.text("source");
  if (source.starts_with("pytorch/torchtune")) return Library::kTorchtune;
  const bool guide = source.find("perf_train_gpu_one") != std::string::npos;
  if (guide) return Library::kTrainer;
  if (row.text("metric").starts_with("op_")) throw NotMapped{"operators alone"};
  throw NotMapped{fmt::format("the loop of {}, which is not known here",
                              source.substr(0, source.find_first_of("@ ")))};
}

std::string model_of(const RowReader& row) {
  constexpr auto kPresets = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"Llama-3.1-8B", "llama-3-8b"},
       {"Llama-3-8B", "llama-3-8b"},
       {"Llama2-7B", "llama-2-7b"},
       {"Llama-3.2-1B", "llama-3.2-1b"},
       {"Llama-3.2-3B",
        "{preset: llama-3.2-1b, layers: 28, width: 3072, heads: 24, kv_heads: 8, head_width: 128, "
        "ffn: 8192}"},
       {"Mistral-7B", "mistral-7b"},
       // The head that classifies sequences is small against that of the vocabulary.
       {"bert-large-uncased sequence classification", "bert-large"}});
  for (const auto& [published, preset] : kPresets) {
    if (row.text("model") == published) return std::string(preset);
  }
  throw NotMapped{fmt::format("model {}", row.text("model"))};
}

// Returns the YAML of a row's optimizer. torchtune's configurations ask for fused kernels; the
// Trainer's default was a loop of its own, and its Adafactor is its own.
std::string optimizer_of(const RowReader& row, Library library) {
  const std::string& published = row.text("optimizer");
  const bool trainer = library == Library::kTrainer;
  if (published == "adamw" || published == "adamw_fused" || published.empty()) {
    return fmt::format("{{name: adamw, implementation: {}}}", trainer ? "loop" : "fused");
  }
  if (published == "adafactor" && trainer) return "{name: adafactor, implementation: transformers}";
  if (published == "adamw_8bit" || published == "bnb_adamw8bit" || published == "bnb_adam8bit")
    return "adamw_8bit";
  if (published == "ao_adamw8bit") return "{name: adamw_8bit, implementation: torchao}";
  if (published == "ao_adamw4bit") return "adamw_4bit";
  throw NotMapped{fmt::format("optimizer {}", published)};
}

// Returns the modules of a row; torchtune's configurations adapt all but the keys where it says
// nothing.
std::string targets_of(const RowReader& row) {
  constexpr auto kModules = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"q", "q_proj"},
       {"k", "k_proj"},
       {"v", "v_proj"},
       {"o", "o_proj"},
       {"mlp", "gate_proj, up_proj, down_proj"}});
  const std::string given = row.text("targets").empty() ? "q,v,o,mlp" : row.text("targets");
  std::vector<std::string_view> modules;
  for (std::size_t begin = 0; begin <= given.size();) {
    const std::size_t end = std::min(given.find(',', begin), given.size());
    const std::string_view word = std::string_view(given).substr(begin, end - begin);
    const std::size_t before = modules.size();
    for (const auto& [name, module] : kModules) {
      if (word == name) modules.push_back(module);
    }
    if (modules.size() == before) throw NotMapped{fmt::format("adapters on {}", given)};
    begin = end + 1;
  }
  return fmt::format("[{}]", fmt::join(modules, ", "));
}

// torchtune's adapters have the model's type, and its 4-bit weights are torchao's, which quantises
// the scales as well.
std::string lora_of(const RowReader& row) {
  const std::string& format = row.text("quantised");
  if (!format.empty() && format != "nf4" && format != "nf4_dq")
    throw NotMapped{fmt::format("a base in {}", format)};
  return fmt::format("lora: {{rank: {}, targets: {}, dtype: bf16{}}}", row.count("rank"),
                     targets_of(row), format.empty() ? "" : ", base: nf4, implementation: torchao");
}

std::vector<std::string> policies_of(const RowReader& row, Library library) {
  std::vector<std::string> policies;
  const std::string& method = row.text("method");
  const bool adapts = library == Library::kTorchtune && (method == "lora" || method == "qlora");
  if (adapts) policies.push_back(lora_of(row));
  if (!adapts && method != "full") throw NotMapped{fmt::format("method {}", method)};
  const std::string& recompute = row.text("recompute");
  if (recompute == "full") {
    // torchtune wraps layers by checkpoints without reentry.
    policies.emplace_back(library == Library::kTorchtune
                              ? "checkpoint_every: {period: 1, reentrant: false}"
                              : "checkpoint_every: {period: 1}");
  } else if (recompute != "none") {
    throw NotMapped{"recomputation that is not stated"};
  }
  if (row.text("offload") == "activations") {
    policies.emplace_back("offload_activations");
  } else if (!row.text("offload").empty() && row.text("offload") != "none") {
    throw NotMapped{fmt::format("offloading of {}", row.text("offload"))};
  }
  // The loss of torchtune's configurations, which makes the logits in eight chunks.
  const bool chunks = row.text("loss") == "eight_chunks" || row.text("loss").empty();
  if (library == Library::kTorchtune && chunks)
    policies.emplace_back("chunked_loss: {chunks: 8, kind: kept}");
  if (row.text("optimizer_in_backward") == "1") policies.emplace_back("optimizer_in_backward");
  return policies;
}

std::string scenario_of(const RowReader& row, const PublishedDevice& device) {
  if (row.text("value_kind") == "estimate") throw NotMapped{"estimates by rule of thumb"};
  if (device.count > 1) throw NotMapped{"several GPUs"};
  const Library library = library_of(row);
  if (row.text("micro_batch").empty() || row.text("seq").empty())
    throw NotMapped{"batch or length not stated"};
  // Samples that are not packed are shorter than the longest, which is what a row states.
  const bool packed = row.text("other").find("packed") != std::string::npos ||
                      row.text("notes").find("packed to") != std::string::npos;
  if (library == Library::kTorchtune && !packed) throw NotMapped{"lengths that vary"};
  const std::string& precision = row.text("precision");
  if (precision != "bf16" && precision != "fp32" && precision != "fp16_autocast")
    throw NotMapped{fmt::format("precision {}", precision)};
  const std::vector<std::string> policies = policies_of(row, library);
  std::string training =
      fmt::format("micro_batch: {}, accumulate: {}, sequence: {}, precision: {}, optimizer: {}",
                  row.count("micro_batch"), ranks_of(row, "accumulation"), row.count("seq"),
                  precision, optimizer_of(row, library));
  if (library == Library::kTrainer) {
    // BERT's own attention; gradients are clipped at 1 and filled with zeros.
    training +=
        ", attention: math, clip_grad_norm: 1.0, zero_grad: zero, framework: torch-1.13-cuda";
  }
  if (precision == "fp16_autocast") training += ", loss_scale: dynamic";
  // torchtune compiles each layer, and each chunk of the loss.
  if (row.text("compile") == "1") training += ", compile: inductor";
  return fmt::format("{{version: 1, model: {}, hardware: {}, training: {{{}}}, policies: {}}}",
                     model_of(row), hardware_of(device), training, policy_list(policies));
}

// The name of a row's GPU; of an A100 whose memory is not stated that with room.
std::string gpu_of(const RowReader& row) {
  const std::string& gpu = row.text("gpu");
  return gpu == "a100 (memory not stated)" ? "a100-sxm-80gb" : gpu;
}

}  // namespace
}  // namespace adapter_runs_detail

bool is_adapter_table(const CsvTable& table) {
  return table.has("method") && table.has("quantised") && table.has("metric") &&
         table.has("value_si") && !table.has("metric_norm");
}

MeasuredSteps read_adapter_runs(const CsvTable& table, const StepTableOptions& options) {
  return read_published_rows(table, options, adapter_runs_detail::scenario_of,
                             {.metric = "metric",
                              .kind = "method",
                              .gpu = adapter_runs_detail::gpu_of,
                              .marks_usable = false});
}

}  // namespace tidemark
