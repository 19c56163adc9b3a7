// Texts in YAML and JSON: scenarios, goals, profiles, settings of other tools.
#include <cstddef>
#include <string>
#include <vector>

#include "graph/core/decoder.hpp"
#include "graph/core/document.hpp"
#include "hwprofiles/device_profile.hpp"
#include "scenarios/import/import_settings.hpp"
#include "scenarios/read/goal.hpp"
#include "scenarios/read/published.hpp"
#include "scenarios/read/scenario.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace tidemark::fuzz {
namespace document_targets_detail {
namespace {

void read_document_text(const std::string& bytes) {
  static_cast<void>(parse_document(bytes, "fuzz.yaml"));
  static_cast<void>(parse_document(bytes, "fuzz.json"));
}

// Reads a scenario with its sweep and its goal; a sweep of many points has its first ones read.
void read_scenario(const std::string& bytes) {
  constexpr std::size_t points = 4;
  const Value document = load_scenario(file_with(bytes, "scenario.yaml"));
  const std::vector<std::vector<Override>> swept = sweep_points(document);
  for (std::size_t i = 0; i < swept.size() && i < points; ++i) {
    const Scenario scenario = decode_scenario(point_document(document, swept[i]), environment());
    static_cast<void>(decode_goal(document, scenario.device.figures));
    check_published(decode_published(document, scenario.device.figures), swept.size());
    static_cast<void>(published_lines(document));
  }
}

void read_goal(const std::string& bytes) {
  static const std::vector<Figure> figures =
      load_device_profile("a100-sxm-80gb", environment().profile_folders).figures;
  static_cast<void>(decode_goal(parse_document(bytes, "goal.yaml"), figures));
}

void read_override(const std::string& bytes) {
  Value document = parse_document("model: gpt2\nhardware: a100-sxm-40gb\n", "base.yaml");
  apply_override(document, parse_override(bytes));
  static_cast<void>(decode_scenario(document, environment()));
}

void read_profile(const std::string& bytes) {
  static_cast<void>(
      load_device_profile(file_with(bytes, "profile.yaml"), environment().profile_folders));
}

void read_foreign_settings(const std::string& bytes) {
  const ImportOptions options{.model = "gpt2", .gpu = "a100-sxm-40gb"};
  const ImportedScenario imported =
      import_settings(parse_document(bytes, "settings.json"), options, environment());
  static_cast<void>(scenario_yaml(imported, "settings.json"));
}

}  // namespace
}  // namespace document_targets_detail

std::vector<FuzzTarget> document_targets() {
  using namespace document_targets_detail;
  return {
      {.name = "document",
       .seeds = {"scenarios/basics/*.yaml", "scenarios/models/*.json"},
       .texts = {"a: &x [1, 2]\nb: *x\n", "{\"a\": [1, {\"b\": null}]}"},
       .read = read_document_text},
      {.name = "scenario",
       .seeds = {"scenarios/basics/*.yaml", "scenarios/parallel/*.yaml",
                 "scenarios/adapters/*.yaml", "scenarios/offload/*.yaml", "scenarios/data/*.yaml",
                 "scenarios/papers/*.yaml", "scenarios/batch/*.yaml", "scenarios/elastic/*.yaml"},
       .read = read_scenario},
      {.name = "goal",
       .texts = {"goal: {minimize: time.step}\n",
                 "goal: {maximize: [throughput.tokens_per_second, -memory.peak_live], subject_to: "
                 "[\"memory.device_used <= 0.95 * hardware.hbm.capacity\", \"(time.step + 1ms) * 2 "
                 "< 1.5e3\"]}\n"},
       .read = read_goal},
      {.name = "override",
       .texts = {"training.micro_batch=4", "policies=[optimal: {budget: 60%}, offload_optimizer]",
                 "hardware={gpu: v100-sxm-16gb, hbm: {capacity: 12GiB}}",
                 "allocator={kind: torch, expandable_segments: true}"},
       .read = read_override},
      {.name = "profile",
       .seeds = {"hwprofiles/*.yaml", "hwprofiles/networks/*.yaml"},
       .read = read_profile},
      {.name = "settings",
       .texts =
           {"{\"train_batch_size\": 32, \"zero_optimization\": {\"stage\": 3, "
            "\"offload_optimizer\": {\"device\": \"cpu\"}}, \"bf16\": {\"enabled\": true}}",
            "{\"per_device_train_batch_size\": 4, \"gradient_accumulation_steps\": 8, \"bf16\": "
            "true, \"optim\": \"adamw_torch\", \"gradient_checkpointing\": true}",
            "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\n"
            "num_processes: 8\nfsdp_config: {fsdp_sharding_strategy: FULL_SHARD}\n",
            "base_model: NousResearch/Llama-3.2-1B\nadapter: qlora\nload_in_4bit: true\nlora_r: "
            "32\n"
            "lora_target_linear: true\nsequence_len: 2048\nsample_packing: true\n"
            "micro_batch_size: 2\noptimizer: adamw_8bit\n"},
       .read = read_foreign_settings},
  };
}

}  // namespace tidemark::fuzz
