// Published runs on many GPUs, each said as the system that it names ran it. What a table cannot
// say is a rule of the system, with the version from which it holds.
//
// torchtitan has FSDP 2 in blocks. Until its pull request 1094 (April 2025) the root had embedding
// and head, and the last block stayed gathered; since then both are units of their own
// (parallelize_llama.py). Until 391 (June 2024) the loop kept the model's fp32 logits through
// backward. Blocks are compiled, and the loss since 642 (October 2024), but from 755 (December
// 2024) until 1033 (April 2025). The optimizer is fused since 881 (February 2025), unless a row
// says so before. Context parallelism gathers keys and values.
//
// atorch has FSDP 1 of fp32 units under torch.autocast; its DeepSpeed pipelines have no sequence
// parallelism. Thunder's benchmark trains litgpt's models, and its loop names the logits until the
// next step and takes the loss outside of what is compiled.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "scenarios/measured/published_rows.hpp"

namespace tidemark {
namespace parallel_runs_detail {
namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Returns a text's words in lower case: "no torch.compile" is "no", "torch", "compile".
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : text) {
    const auto letter = static_cast<unsigned char>(c);
    const bool was_inside = std::exchange(inside, std::isalnum(letter) != 0);
    if (!inside) continue;
    if (!was_inside) words.emplace_back();
    words.back() += static_cast<char>(std::tolower(letter));
  }
  return words;
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Whether a text has a word that begins so ("fused", "FusedAdam") and does not deny it, as "no
// torch.compile", "non-fused" and "compile off" do.
bool affirms(std::string_view text, std::string_view beginning) {
  const std::vector<std::string> words = words_of(text);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with(beginning)) continue;
    std::size_t before = i;
    while (before > 0 && is_one_of(words[before - 1], {"torch", "the", "a"}))
      --before;
    const bool denied = before > 0 && is_one_of(words[before - 1], {"no", "not", "non", "without"});
    const bool off = i + 1 < words.size() && is_one_of(words[i + 1], {"off", "disabled", "false"});
    if (!denied && !off) return true;
  }
  return false;
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

// The pull requests of torchtitan that changed a rule, in order.
constexpr int kDropsLogits = 391;        // "del logits", June 2024
constexpr int kCompilesTheLoss = 642;    // October 2024
constexpr int kLeavesTheLoss = 755;      // "turning off compile on loss function", December 2024
constexpr int kFusesTheOptimizer = 881;  // February 2025
constexpr int kCompilesTheLossAgain = 1033;  // build_loss_fn, April 2025 at the latest
constexpr int kSplitsTheRoot = 1094;         // April 2025

// Returns how far torchtitan was in a row: the number of the newest pull request in it. A thread
// is as far as its own number, as in "pytorch/torchtitan#165". docs/performance ran Llama 3.1 405B,
// of July 2024, before the rules after. torchao's runs of torchtitan 0.0.2 are of PyTorch 2.7.0a0
// with torchao 0.10, from between the end of February and March 2025. Other documents are taken to
// be of today. Throws NotMapped for the thread of another repository, whose numbers say nothing of
// torchtitan's version.
int torchtitan_of(const RowReader& row) {
  constexpr std::string_view kThread = "pytorch/torchtitan#";
  const std::string& source = row.text("source");
  if (contains(source, "#")) {
    int number = 0;
    const char* const end = source.data() + source.size();
    const bool read =
        source.starts_with(kThread) &&
        std::from_chars(source.data() + kThread.size(), end, number).ec == std::errc{};
    if (!read || number < 1) throw NotMapped{"a version of torchtitan that is not stated"};
    return number;
  }
  if (contains(source, "docs/performance")) return kDropsLogits;
  return contains(row.text("other"), "torchtitan 0.0.2") ? kFusesTheOptimizer
                                                         : std::numeric_limits<int>::max();
}

bool compiles_the_loss(int torchtitan) {
  const bool at_first = torchtitan >= kCompilesTheLoss && torchtitan < kLeavesTheLoss;
  return at_first || torchtitan >= kCompilesTheLossAgain;
}

// Returns the setting of the ranks that share a shard, where replicas of it add up to more.
std::string replicated_shard_of(const RowReader& row) {
  const std::int64_t group = ranks_of(row, "zero_group");
  const std::int64_t ranks = ranks_of(row, "dp") * ranks_of(row, "cp");
  return group > 1 && group < ranks ? fmt::format(", shard: {}", group) : "";
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

// Returns the FSDP policy of torchtitan at the time of the row. Pipelines keep what is gathered
// until the last micro-batch (parallelize_llama.py; its policy "default" reshards without them).
std::string torchtitan_shards(const RowReader& row) {
  const bool pipelined = ranks_of(row, "pp") > 1;
  const bool resharded = row.text("zero") == "3" && !pipelined;
  const std::string rest =
      fmt::format("reshard_after_forward: {}, param_dtype: bf16, reduce_dtype: fp32{}", resharded,
                  replicated_shard_of(row));
  if (contains(row.text("parallelism"), "FSDP1"))
    return fmt::format("fsdp: {{version: 1, {}}}", rest);
  const bool split = torchtitan_of(row) >= kSplitsTheRoot;
  const std::string units = split ? ", units: [embed_tokens, blocks, [norm, lm_head]]" : "";
  const std::string kept = split ? "lm_head" : fmt::format("layers.{}", row.count("layers") - 1);
  return fmt::format("fsdp: {{version: 2, {}{}{}}}", rest, units,
                     resharded ? fmt::format(", keep_gathered: [{}]", kept) : "");
}

std::string shards_of(const RowReader& row, System system) {
  const std::string& stage = row.text("zero");
  if (contains(row.text("parallelism"), "DeepSpeed") || contains(row.text("parallelism"), "ZeRO"))
    return fmt::format("zero: {{stage: {}}}", stage);
  if (system == System::kMegatron) return "distributed_optimizer: {}";
  if (system == System::kTorchtitan) return torchtitan_shards(row);
  if (stage == "1") return "zero: {stage: 1}";
  const bool casts = row.text("precision_norm") == "bf16_fsdp";
  return fmt::format("fsdp: {{version: {}, reshard_after_forward: {}{}{}}}",
                     contains(row.text("parallelism"), "FSDP2") ? 2 : 1,
                     stage == "3" ? "true" : "false", casts ? ", param_dtype: bf16" : "",
                     replicated_shard_of(row));
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

// Returns the module of scenarios that a row calls "q" or "q_proj".
std::string adapted_module(std::string_view published) {
  constexpr auto kModules =
      std::to_array<std::string_view>({"q", "k", "v", "o", "gate", "up", "down"});
  constexpr std::string_view kEnd = "_proj";
  if (published.ends_with(kEnd)) published.remove_suffix(kEnd.size());
  for (const std::string_view known : kModules) {
    if (published == known) return fmt::format("{}{}", known, kEnd);
  }
  throw NotMapped{fmt::format("adapters on {}", published)};
}

// Returns "lora: ..." of "LoRA r=16 on q,k,v,o"; empty without adapters.
std::string lora_of(const RowReader& row) {
  constexpr std::string_view kRank = "LoRA r=";
  constexpr std::string_view kOn = " on ";
  const std::string_view other = row.text("other");
  const std::size_t start = other.find(kRank);
  if (start == std::string_view::npos) {
    if (other.find("LoRA") != std::string_view::npos ||
        other.find("lora") != std::string_view::npos)
      throw NotMapped{"adapters that are not stated"};
    return {};
  }
  int rank = 0;
  const auto [end, fault] =
      std::from_chars(other.data() + start + kRank.size(), other.data() + other.size(), rank);
  const std::size_t on = static_cast<std::size_t>(end - other.data());
  if (fault != std::errc{} || rank < 1 || !other.substr(on).starts_with(kOn))
    throw NotMapped{"adapters that are not stated"};
  std::string_view names = other.substr(on + kOn.size());
  names = names.substr(0, names.find_first_of(" ;"));
  std::vector<std::string> targets;
  while (true) {
    const std::size_t comma = names.find(',');
    targets.push_back(adapted_module(names.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    names.remove_prefix(comma + 1);
  }
  return fmt::format("lora: {{rank: {}, targets: [{}]}}", rank, fmt::join(targets, ", "));
}

std::vector<std::string> policies_of(const RowReader& row, System system, int gpus) {
  std::vector<std::string> policies;
  if (ranks_of(row, "ep") > 1) throw NotMapped{"expert parallelism"};
  if (ranks_of(row, "tp") > 1) {
    const bool sequence = row.text("sp") != "0" && system != System::kAtorch;
    policies.push_back(fmt::format("tensor_parallel: {{size: {}, sequence: {}}}", row.count("tp"),
                                   sequence ? "true" : "false"));
  }
  if (ranks_of(row, "cp") > 1) {
    policies.push_back(fmt::format("context_parallel: {{size: {}, kind: {}}}", row.count("cp"),
                                   system == System::kTorchtitan ? "all_gather" : "ring"));
  }
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

// "bf16 + mxfp8 linears"; "bf16 + float8 linears" are fp8_fsdp.
void require_plain_linears(const RowReader& row) {
  if (contains(row.text("precision"), " linears")) throw NotMapped{"linear layers of 8 or 4 bits"};
}

std::string optimizer_with(const RowReader& row, System system) {
  const bool fused = affirms(row.text("optimizer"), "fused") ||
                     affirms(row.text("other"), "fused") ||
                     (system == System::kTorchtitan && torchtitan_of(row) >= kFusesTheOptimizer);
  std::string name = optimizer_of(row);
  if (name != "adam" && name != "adamw") return name;
  return fmt::format("{{name: {}, implementation: {}}}", name, fused ? "fused" : "foreach");
}

std::string training_of(const RowReader& row, System system) {
  require_plain_linears(row);
  const std::string precision = precision_of(row);
  std::string training =
      fmt::format("micro_batch: {}, accumulate: {}, sequence: {}, precision: {}, optimizer: {}",
                  row.count("micro_batch"), ranks_of(row, "accumulation"), row.count("seq"),
                  precision, optimizer_with(row, system));
  if (affirms(row.text("other"), "compile") || affirms(row.text("other"), "inductor")) {
    const bool blocks = system == System::kThunder ||
                        (system == System::kTorchtitan && !compiles_the_loss(torchtitan_of(row)));
    training += blocks ? ", compile: regional" : ", compile: inductor";
  }
  if (precision == "fp16_autocast" || precision == "fp16_mixed")
    training += ", loss_scale: dynamic";
  if (system == System::kTorchtitan && torchtitan_of(row) < kDropsLogits)
    training += ", hold_output: fp32";
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
