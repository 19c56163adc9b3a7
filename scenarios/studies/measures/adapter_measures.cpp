// Adapters beside frozen weights, as peft makes them for Hugging Face's trainers and for axolotl.
#include <string>
#include <utility>

#include <fmt/format.h>

#include "scenarios/read/axolotl_models.hpp"
#include "scenarios/studies/measures/measures.hpp"
#include "scenarios/studies/measures/setting_values.hpp"

namespace tidemark {

// The base is loaded in 16 bits and computes under autocast. peft makes adapters in fp32 whatever
// the base has (autocast_adapter_dtype); TRL's trainers cast those of a quantised base to bf16,
// which transformers' Trainer leaves as they are.
std::optional<Measure> Measures::adapters(bool quantised_base) const {
  if (!trains_graph() || has_policy("lora")) return std::nullopt;
  const bool has_bf16 = matrix_type(scenario_.device, DType::kBFloat16) == DType::kBFloat16;
  const std::string type = has_bf16 ? "bf16" : "fp16";
  const std::string torch_type = has_bf16 ? "torch.bfloat16" : "torch.float16";
  Value item = policy_item("lora", "rank", "16");
  Value* parameters = &item.entries.front().value;
  set_entry(*parameters, "alpha", {}, word_value("32"));
  set_entry(*parameters, "targets", {}, word_value("all-linear"));
  set_entry(*parameters, "base", {}, word_value(quantised_base ? "nf4_dq" : type));
  if (quantised_base) set_entry(*parameters, "compute_dtype", {}, word_value(type));
  std::vector<Override> settings{{"training.precision", word_value(type + "_autocast")}};
  if (!has_bf16) settings.push_back({"training.loss_scale", word_value("dynamic")});

  const std::string config = "LoraConfig(r=16, lora_alpha=32, target_modules=\"all-linear\")";
  const std::string model = fmt::format("peft.get_peft_model(model, peft.{})", config);
  // Lines of PyTorch break at their blanks where a terminal is narrow.
  const auto loading = [&](std::string_view blank) {
    if (!quantised_base) return "torch_dtype=" + torch_type;
    return fmt::format(
        "torch_dtype={0}, quantization_config={1}BitsAndBytesConfig({1}load_in_4bit=True, "
        "bnb_4bit_quant_type=\"nf4\", bnb_4bit_use_double_quant=True, "
        "bnb_4bit_compute_dtype={0})",
        torch_type, blank);
  };
  // axolotl leaves the rest of some quantised models in fp32, which is another step.
  const bool in_axolotl = !quantised_base || axolotl_narrows_rest(scenario_.model);
  return Measure{
      .kind = MeasureKind::kAdapters,
      .text = quantised_base ? "qlora(rank 16, 4-bit base)" : "lora(rank 16)",
      .settings = std::move(settings),
      .policies = {std::move(item)},
      .numbers = quantised_base ? "updates of rank 16 only, base rounded to 4 bits"
                                : "updates of rank 16 only, base in " + type,
      .pytorch = fmt::format("model = from_pretrained(name, {})\nmodel = {}\n"
                             "with torch.autocast(\"cuda\", dtype={}): ...{}",
                             loading(" "), model, torch_type,
                             has_bf16 ? "" : "  # with torch.amp.GradScaler"),
      .hugging_face =
          fmt::format("{}  # of from_pretrained()\n{}=True\n{}", loading(""), type,
                      quantised_base ? fmt::format("model={}  # transformers' Trainer", model)
                                     : fmt::format("peft_config={}  # TRL's SFTTrainer", config)),
      .axolotl = !in_axolotl ? ""
                             : fmt::format("{}: true\nadapter: {}\nlora_r: 16\nlora_alpha: 32\n"
                                           "lora_target_linear: true{}",
                                           type, quantised_base ? "qlora" : "lora",
                                           quantised_base ? "\nload_in_4bit: true" : "")};
}

}  // namespace tidemark
