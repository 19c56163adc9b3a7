// Predictions next to what was measured, and their errors by group.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "hwprofiles/calibrate/observations.hpp"
#include "hwprofiles/device_profile.hpp"
#include "hwprofiles/measured/measured_operators.hpp"

namespace tidemark {

enum class ValueUnit : std::uint8_t { kNumber, kBytes, kSeconds };

// One row of a table; `predicted` and `measured` are in the metric's unit: seconds or bytes, rates
// per second.
struct ValidatedRow {
  std::string group;   // "v100-sxm-32gb matmul fp16"
  std::string metric;  // "time", "peak_allocated", ...
  ValueUnit unit = ValueUnit::kNumber;
  std::string text;  // the row in words
  std::string file;
  int line = 0;
  // "memory on several GPUs": what the row counts among over all groups; empty for operators and
  // for checks.
  std::string overall;
  double predicted = 0;
  double measured = 0;

  [[nodiscard]] double error() const { return predicted / measured - 1; }
};

struct ValidatedGroup {
  std::string group;
  std::string metric;
  ErrorSummary errors;
};

struct RefusedLine {
  std::string file;
  int line = 0;
  std::string problem;
};

struct Validation {
  std::vector<ValidatedRow> rows;
  std::vector<RefusedLine> refused;          // wrong rows, left out
  std::map<std::string, std::size_t> other;  // rows that are right and not mapped, by reason
};

// Returns the errors of each group and metric, in the order in which they first appear.
[[nodiscard]] std::vector<ValidatedGroup> groups_of(std::span<const ValidatedRow> rows);
// Returns the errors over all groups, by what the rows count among; `metric` is empty.
[[nodiscard]] std::vector<ValidatedGroup> overall_groups_of(std::span<const ValidatedRow> rows);

// Returns "memory on several GPUs", "time on one GPU" or "rate on one GPU": what a step's figure
// counts among, by its unit.
[[nodiscard]] std::string overall_group(ValueUnit unit, std::int64_t gpus);

// Prices the operators of one table, each on its device. With `profile` all rows of its chip run on
// it and the others count as other devices; without, each row's device is looked up among the
// profiles in `folders`. Overheads of timing are fitted, one for each kind of a table timed from
// the host; nothing else is. Adds to `validation`. Throws UserError as load_device_profile() does.
void validate_operators(const MeasuredTable& table, const DeviceProfile* profile,
                        std::span<const std::string> folders, ProfileCache& cache,
                        Validation& validation);

}  // namespace tidemark
