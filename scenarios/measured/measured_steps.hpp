// Training steps that others measured, as scenarios. Kinds of tables, recognised by their
// columns:
//   model,img_size,batch,step_ms,...     timm's training benchmark on one RTX 3090: AMP, SGD. Its
//                                        batch is the first of kBatchLadder that fitted, so that
//                                        the next larger one did not: a bracket on peak memory.
//   source,...,gpu_profile,...,value_si  published steps with machine-readable columns
//   source,...,method,...,quantised,...,metric,...,value_si  published fine-tuning on one GPU
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/core/value.hpp"
#include "hwprofiles/calibrate/validated.hpp"
#include "hwprofiles/measured/csv_table.hpp"
#include "scenarios/read/scenario.hpp"

namespace tidemark {

// Whether the columns are those of a table of training steps.
[[nodiscard]] bool is_step_table(const CsvTable& table);

// The quantity that a row states of its step.
enum class StepMetric {
  kStepTime,
  kTokensPerSecondPerGpu,
  kSamplesPerSecondPerGpu,
  kPeakAllocated,
  kPeakReserved,
  kPeakActive,
  kDeviceUsed,
  kFits,                 // measured: 1; predicted: 1 where it fits, else 0
  kDoesNotFit,           // measured: 1; predicted: 1 where it does not fit, else 0
  kFlopsPerGpu,          // model flops per second
  kHardwareFlopsPerGpu,  // the same with what is recomputed
};

struct MeasuredStep {
  std::string group;
  std::string text;
  int line = 0;
  std::string scenario;  // YAML
  StepMetric metric = StepMetric::kStepTime;
  double value = 0;  // seconds, bytes, per second
  int gpus = 1;
  std::string model;  // model, which a fit holds out as a whole
  std::string device;
};

struct MeasuredSteps {
  std::string file;
  std::vector<MeasuredStep> steps;
  std::vector<RefusedLine> refused;
  std::map<std::string, std::size_t> other;
};

struct StepTableOptions {
  std::string gpu;            // replaces the device of every row; empty: the row's own
  std::string models_folder;  // timm's models as NAME.onnx; empty: looked for above the table
};

// Throws UserError where more than half of the rows are wrong, or a column is missing.
[[nodiscard]] MeasuredSteps read_measured_steps(const CsvTable& table,
                                                const StepTableOptions& options);

// Returns the step times of one GPU as the kernels that their last steps launch, for calibrate().
// How long a step waits for the host is taken from the simulation of it, and no fit changes that.
// Throws nothing; steps that cannot be built are counted as others.
[[nodiscard]] MeasuredTable kernels_of(const MeasuredSteps& steps, const Environment& environment,
                                       int threads);

// Returns why a step of one rank cannot take so long: its products and convolutions would run above
// the peak of its device. None: it can, or cannot be built.
[[nodiscard]] std::optional<std::string> impossible_step(const MeasuredStep& step, double seconds,
                                                         const Environment& environment);

// Simulates the steps on `threads` threads and adds a row for each; equal scenarios run once. Steps
// that cannot be built count as other rows, with the reason; times and rates that cannot be are
// refused.
void validate_steps(const MeasuredSteps& steps, const Environment& environment, int threads,
                    Validation& validation);

}  // namespace tidemark
