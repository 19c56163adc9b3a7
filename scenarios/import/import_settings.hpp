// Imports the training settings of other tools: DeepSpeed's configuration, TrainingArguments of
// transformers and TRL, Accelerate's configuration, axolotl's. What a file is, its keys say.
#pragma once

#include <string>

#include "scenarios/import/settings.hpp"
#include "scenarios/read/scenario.hpp"

namespace tidemark {

struct ImportedScenario {
  std::string format;  // "DeepSpeed configuration"
  Value scenario;      // a document that decode_scenario() accepts
  ImportReport report;
};

struct ImportOptions {
  std::string model;  // preset or path, as for `run`
  std::string gpu;
  int count = 0;  // number of GPUs; 0: that of the file, or 1
};

// Reads `file` as the scenario of one model. Settings that this Tidemark cannot simulate are left
// out and reported, with the reason. Throws UserError: no known format, a setting of a wrong type
// or one that its own tool would refuse, an unknown model.
[[nodiscard]] ImportedScenario import_settings(const Value& file, const ImportOptions& options,
                                               const Environment& environment);

// Returns the scenario as the file has it, before anything is left out.
[[nodiscard]] ImportedScenario read_settings(const Value& file, const ImportOptions& options);

// Returns the scenario as YAML, with what was left out as comments. `source` names the imported
// file.
[[nodiscard]] std::string scenario_yaml(const ImportedScenario& imported,
                                        const std::string& source);

}  // namespace tidemark
