// The model's and the adapter's keys of TRL's scripts (ModelConfig, trl/trainer/model_config.py)
// and of files that follow them, as those of the alignment handbook, beside TrainingArguments.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "scenarios/import/draft.hpp"
#include "scenarios/read/short_form.hpp"

namespace tidemark {
namespace model_arguments_detail {
namespace {

constexpr std::string_view kPreferences =
    "pairs of answers, generation and a reference model are not simulated: the step is that of "
    "supervised training";

void import_type(Settings& settings, ScenarioDraft& draft) {
  for (const char* key : {"torch_dtype", "dtype"}) {
    const auto type = settings.word(key);
    if (!type) continue;
    const bool brain = *type == "bfloat16" || *type == "bf16";
    if (brain || *type == "float16" || *type == "fp16") {
      draft.low_model = true;
      draft.low_unmixed = draft.low_precision.is_null();
      draft.low_precision = scalar_at(brain ? "bf16" : "fp16", settings, key);
      settings.becomes(key, fmt::format("training.precision: {}", draft.low_precision.scalar));
    } else if (*type == "float32" || *type == "fp32") {
      settings.becomes(key, "weights in fp32");
    } else {
      settings.not_understood(key, "types are float32, bfloat16 and float16 here");
    }
  }
}

// Sets a parameter of lora from a key, or TRL's default for it.
void set_number(Settings& settings, const std::string& key, const std::string& parameter,
                std::string_view standard, Value& lora) {
  const Value* given = settings.value(key);
  set_entry(lora, parameter, settings.location(key),
            given != nullptr ? *given : scalar_at(std::string(standard), lora.location));
  settings.becomes(key, fmt::format("policies.lora.{}", parameter));
}

// The format of the frozen weights; empty where they are not quantised.
std::string base_of(Settings& settings) {
  const bool four = settings.flag("load_in_4bit").value_or(false);
  if (settings.flag("load_in_8bit").value_or(false)) {
    if (four) {
      throw UserError(settings.location("load_in_8bit"), "load_in_8bit",
                      "load_in_4bit and load_in_8bit are both set; TRL takes one of them");
    }
    settings.becomes("load_in_8bit", "policies.lora.base: int8");
    return "int8";
  }
  if (!four) return {};
  const bool nested = settings.flag("use_bnb_nested_quant").value_or(false);
  std::string base = settings.word("bnb_4bit_quant_type").value_or("nf4") + (nested ? "_dq" : "");
  for (const char* key : {"load_in_4bit", "use_bnb_nested_quant", "bnb_4bit_quant_type"})
    settings.becomes(key, fmt::format("policies.lora.base: {}", base));
  return base;
}

void import_adapter(Settings& settings, ScenarioDraft& draft) {
  constexpr auto kOfAdapters = std::to_array<std::string_view>(
      {"use_peft", "lora_*", "use_rslora", "use_dora", "load_in_4bit", "load_in_8bit",
       "use_bnb_nested_quant", "bnb_4bit_*"});
  if (!settings.flag("use_peft").value_or(false)) {
    for (const char* key : {"load_in_4bit", "load_in_8bit"}) {
      if (settings.flag(key).value_or(false))
        settings.not_understood(key, "a quantised model trains by adapters: use_peft");
    }
    settings.without_effect(kOfAdapters);
    return;
  }
  Value& lora = draft.policy("lora", settings.location("use_peft"));
  settings.becomes("use_peft", "policies.lora");
  set_number(settings, "lora_r", "rank", "16", lora);
  set_number(settings, "lora_alpha", "alpha", "32", lora);
  set_number(settings, "lora_dropout", "dropout", "0.05", lora);
  for (const auto& [key, parameter] : {std::pair{"lora_target_modules", "targets"},
                                       std::pair{"lora_modules_to_save", "modules_to_save"}}) {
    const Value* value = settings.value(key);
    if (value == nullptr) continue;
    // One name in a list is a word of peft's, as all-linear is.
    const bool word = value->items.size() == 1 && value->items.front().scalar == "all-linear";
    set_entry(lora, parameter, settings.location(key), word ? value->items.front() : *value);
    settings.becomes(key, fmt::format("policies.lora.{}", parameter));
  }
  for (const auto& [key, parameter] :
       {std::pair{"use_dora", "dora"}, std::pair{"use_rslora", "rslora"}}) {
    if (!settings.flag(key).value_or(false)) continue;
    set_entry(lora, parameter, settings.location(key), scalar_at("true", settings, key));
    settings.becomes(key, fmt::format("policies.lora.{}: true", parameter));
  }
  draft.low_frozen = draft.low_model;
  const std::string base = base_of(settings);
  if (!base.empty()) {
    set_entry(lora, "base", lora.location, scalar_at(base, lora.location));
    // The rest is loaded in TRL's default, fp32, unless the file names a type; layers of 4 bits
    // multiply in that type, or in autocast's.
    if (!draft.low_model)
      set_entry(lora, "prepare", lora.location, scalar_at("true", lora.location));
    if (base != "int8" && !draft.low_precision.is_null())
      set_entry(lora, "compute_dtype", lora.location, draft.low_precision);
    draft.low_frozen = true;
    // TRL's trainers cast what is trained beside a quantised base.
    set_entry(lora, "dtype", lora.location, scalar_at("bf16", lora.location));
  }
  settings.without_effect(kOfAdapters);
}

}  // namespace
}  // namespace model_arguments_detail

void import_compute_type(Settings& settings, Value& compute) {
  constexpr std::string_view kKey = "bnb_4bit_compute_dtype";
  const auto word = settings.word(kKey);
  if (!word) return;
  const std::string type = word->starts_with("torch.") ? word->substr(6) : *word;
  constexpr auto kTypes = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", "fp32"}});
  for (const auto& [name, ours] : kTypes) {
    if (type != name) continue;
    compute = scalar_at(std::string(ours), settings, kKey);
    settings.becomes(kKey, fmt::format("policies.lora.compute_dtype: {}", ours));
    return;
  }
  settings.not_understood(kKey, "types are float32, bfloat16 and float16 here");
}

void import_model_arguments(Settings& settings, ScenarioDraft& draft) {
  model_arguments_detail::import_type(settings, draft);
  model_arguments_detail::import_adapter(settings, draft);
  import_attention(settings, "attn_implementation", draft);
  if (const auto flash = settings.flag("use_flash_attention_2")) {
    draft.set_training("attention",
                       scalar_at(*flash ? "flash" : "math", settings, "use_flash_attention_2"));
    settings.becomes("use_flash_attention_2",
                     fmt::format("training.attention: {}", *flash ? "flash" : "math"));
  }
  for (const char* key :
       {"beta", "loss_type", "max_prompt_length", "max_completion_length", "num_generations",
        "ref_model", "reward_funcs", "rpo_alpha", "precompute_ref_log_probs"})
    settings.not_understood(key, std::string(model_arguments_detail::kPreferences));
  settings.not_understood("neftune_noise_alpha",
                          "noise on the embeddings is not simulated; it costs one more tensor of "
                          "their result");
  if (settings.number("label_smoothing_factor", at_least(0)).value_or(0) > 0) {
    settings.not_understood("label_smoothing_factor",
                            "training.loss: smoothed_cross_entropy is PyTorch's, the Trainer has "
                            "its own");
  }
  constexpr auto kNone = std::to_array<std::string_view>(
      {"model_revision", "model_code_revision", "tokenizer_name_or_path", "chat_template",
       "preprocessing_num_workers", "padding_free", "label_smoothing_factor", "eos_tokens"});
  settings.without_effect(kNone);
}

}  // namespace tidemark
