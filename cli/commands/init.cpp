// tidemark init: writes a commented scenario, or a profile of a GPU, to start from.
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <system_error>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/commands/command.hpp"
#include "cli/text/device_template.hpp"
#include "graph/core/errors.hpp"
#include "graph/core/temporary_files.hpp"
#include "hwprofiles/gpu_names.hpp"
#include "scenarios/read/environment.hpp"

namespace tidemark {
namespace init_detail {
namespace {

// Every key that is commented out shows its default.
constexpr std::string_view kTemplate =
    R"yaml(# A scenario for Tidemark: one training step on one GPU, simulated.
#   tidemark run FILE        simulate every point of the sweep below
#   tidemark explain FILE    what makes up the peak
#   tidemark check FILE      errors only
version: 1
name: GPT-2 XL, which policy fits best?

# A preset (tidemark list models), a preset with changes, a Hugging Face config.json or a cost graph:
#   model: {preset: gpt2-xl, layers: 24}
#   model: ./config.json
model: gpt2-xl

# A GPU (tidemark list gpus); any figure of its profile can be changed:
#   hardware: {gpu: a100-sxm-80gb, hbm: {capacity: 40GiB}}
hardware: a100-sxm-40gb

training:
  micro_batch: 4            # samples per forward pass
  sequence: 1024            # tokens per sample; the default is the model's maximum, at most 2048
  # accumulate: 1           # micro-batches per step
  # precision: bf16_mixed   # fp32 | tf32 | bf16_autocast | fp16_autocast | bf16_mixed | fp16_mixed
  #                         # | bf16 | fp16
  # optimizer: adamw        # tidemark list optimizers; or {name: sgd, momentum: 0.9}
  # attention: flash        # flash | math
  # steps: 2                # figures are those of the last one

# allocator: torch          # PyTorch's caching allocator; ideal: live bytes only

# What is done about memory, in order (tidemark list policies; tidemark describe NAME):
policies: []
#   - checkpoint_every: {period: 1}
#   - offload_activations: {prefetch: 1}

# Each combination is one point, the first key slowest. Without a sweep there is one point, and
# `run` shows it in detail.
sweep:
  matrix:
    policies:
      - []
      - [checkpoint_every: {period: 1}]
      - [checkpoint_every: {period: 4}]
      - [offload_activations: {}]
      - [checkpoint_every: {period: 1}, offload_activations: {}]

# Files that a run writes: results.json, results.csv and, for one point, timeline.csv; on request also
# pictures (svg) and traces (chrome_trace, perfetto, torch_snapshot).
# report: {dir: out, formats: [csv, json, svg]}
)yaml";

// A device that nothing is known of begins with the figures of this one.
constexpr const char* kUsualDevice = "a100-sxm-80gb";

// A file that `init` writes.
struct Draft {
  std::string name;
  std::string text;
  std::string next;  // command to try it with
};

Draft scenario_draft(const std::string& file) {
  const std::string name = file.empty() || file == "-" ? "scenario.yaml" : file;
  std::string text(kTemplate);
  for (std::size_t at = text.find("FILE"); at != std::string::npos; at = text.find("FILE", at)) {
    text.replace(at, 4, name);
    at += name.size();
  }
  return {.name = name, .text = std::move(text), .next = "tidemark run " + name};
}

// A name that several GPUs have is refused with all of them.
Draft device_draft(const std::string& device, const std::string& file, const Console& console) {
  const Environment environment = default_environment(console.program);
  const bool known = !profiles_like(device, gpu_names(environment)).empty();
  const DeviceProfile base =
      load_device_profile(known ? device : kUsualDevice, environment.profile_folders);
  const std::string name = known ? "my-" + base.name : profile_name_of(device);
  if (name.empty()) throw UserError("--device: expected the name of a GPU");
  const std::string path = file.empty() || file == "-" ? name + ".yaml" : file;
  return {.name = path,
          .text = device_template({.name = name, .same_chip = known}, base),
          .next = fmt::format("tidemark run gpt2 --gpu {}{}",
                              path.find('/') == std::string::npos ? "./" : "", path)};
}

}  // namespace
}  // namespace init_detail

void InitCommand::attach(CLI::App& parent) {
  app =
      parent.add_subcommand(kName, "write a commented scenario, or a GPU's profile, to start from");
  app->add_option("FILE", file,
                  "never overwritten; - for standard output (default: scenario.yaml, or the "
                  "device's name)");
  app->add_option("--device", device,
                  "write the profile of this GPU instead, with the figures that it is to have")
      ->type_name("NAME");
}

int InitCommand::execute(const Console& console) const {
  const init_detail::Draft draft = device.empty()
                                       ? init_detail::scenario_draft(file)
                                       : init_detail::device_draft(device, file, console);
  if (file == "-") {
    print(draft.text);
    return kExitFits;
  }
  // Mode x fails where the file exists, also when another program makes it this moment.
  std::FILE* out = std::fopen(draft.name.c_str(), "wbx");
  if (out == nullptr) {
    const int reason = errno;
    throw UserError({.file = draft.name}, {},
                    reason == EEXIST ? std::string("exists already and is left as it is")
                                     : fmt::format("cannot be written: {}",
                                                   std::generic_category().message(reason)));
  }
  const bool written =
      std::fwrite(draft.text.data(), 1, draft.text.size(), out) == draft.text.size();
  if (std::fclose(out) != 0 || !written) {
    std::remove(draft.name.c_str());
    throw UserError({.file = draft.name}, {}, kNotWritten);
  }
  print(fmt::format("wrote {}; next: {}\n", draft.name, draft.next));
  return kExitFits;
}

}  // namespace tidemark
