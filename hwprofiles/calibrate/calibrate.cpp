#include "hwprofiles/calibrate/calibrate.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "hwprofiles/calibrate/bounded_fit.hpp"
#include "hwprofiles/calibrate/cross_validation.hpp"

namespace tidemark {
namespace calibrate_detail {
namespace {

constexpr FitVariable kOverhead{.start = kUsualOverhead, .lower = 0.02, .upper = 1, .spread = 0.5};
constexpr std::uint64_t kHashParts = 1000;
constexpr std::size_t kShownFaults = 5;

FitClass class_of(const MeasuredOperator& op) {
  return op.repeats.empty() ? fit_class_of(op.work.front().op_class) : FitClass::kStep;
}

// Other rows than those that the seed holds out.
constexpr std::uint64_t kFoldSeed = 0x9e3779b97f4a7c15ULL;

// The figures of a class that are fitted; its variables are the parameters and then the floors.
struct ClassFigures {
  std::vector<ProfileParameter> parameters;
  std::vector<std::size_t> floors;  // overheads of timing
  std::vector<FitVariable> variables;

  void apply(DeviceProfile& profile, std::vector<TimingFloor>& timing,
             const std::vector<double>& values) const {
    for (std::size_t i = 0; i < parameters.size(); ++i)
      parameters[i].set(profile, values[i]);
    for (std::size_t i = 0; i < floors.size(); ++i) {
      TimingFloor& floor = timing[floors[i]];
      floor.overhead = values[parameters.size() + i] * floor.floor;
    }
  }

  // Moves the figures from the profile's towards the fit, by a share above 0.
  void follow(DeviceProfile& profile, std::vector<TimingFloor>& timing,
              const std::vector<FittedVariable>& found, double share) const {
    std::vector<double> values;
    values.reserve(found.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double prior = variables[i].start;
      values.push_back(prior * std::pow(found[i].value / prior, share));
    }
    apply(profile, timing, values);
  }
};

class Calibrator {
 public:
  Calibrator(const DeviceProfile& profile, const CalibrationOptions& options)
      : old_(profile), fitted_(profile), options_(options) {
    old_.figures.clear();  // copies of a profile for each step of a fit need none of them
    fitted_.figures.clear();
  }

  void add_table(const MeasuredTable& table, std::span<const std::string> profiles,
                 Calibration& result);
  void fit(Calibration& result);

 private:
  [[nodiscard]] bool is_mine(const std::string& device, std::span<const std::string> profiles);
  CalibratedClass fit_class(FitClass fit_class, const std::vector<std::size_t>& rows);
  [[nodiscard]] ClassFigures figures_of(FitClass fit_class,
                                        const std::vector<std::size_t>& rows) const;
  [[nodiscard]] std::vector<FittedVariable> fit_to(const ClassFigures& figures,
                                                   const std::vector<std::size_t>& rows) const;
  [[nodiscard]] double share_to_follow(FitClass fit_class, const ClassFigures& figures,
                                       const std::vector<std::size_t>& rows) const;
  [[nodiscard]] std::vector<double> errors(const DeviceProfile& profile,
                                           const std::vector<std::size_t>& rows,
                                           const std::vector<TimingFloor>& floors) const;
  void add_groups(const std::vector<std::size_t>& held, Calibration& result) const;

  DeviceProfile old_;
  DeviceProfile fitted_;
  CalibrationOptions options_;
  Observations observations_;
  std::vector<char> held_out_;
  std::vector<TimingFloor> old_floors_;
  std::map<std::string, bool> mine_;  // by the table's name of a device
};

bool Calibrator::is_mine(const std::string& device, std::span<const std::string> profiles) {
  const auto [known, added] = mine_.try_emplace(device, false);
  if (added) known->second = is_device_of(device, old_.name, profiles);
  return known->second;
}

void Calibrator::add_table(const MeasuredTable& table, std::span<const std::string> profiles,
                           Calibration& result) {
  for (const RefusedRow& row : table.refused)
    result.refused.push_back({.file = table.file, .line = row.line, .problem = row.problem});
  for (const auto& [reason, count] : table.other)
    result.other[reason] += count;
  std::size_t used = 0;
  std::size_t wrong = 0;
  for (const MeasuredOperator& op : table.operators) {
    if (!is_mine(op.device, profiles)) {
      ++result.other["other devices"];
      continue;
    }
    if (const auto fault = impossible(op, old_)) {
      result.refused.push_back({.file = table.file, .line = op.line, .problem = *fault});
      ++wrong;
      continue;
    }
    if (class_of(op) == FitClass::kOther) {
      ++result.other["operators of which no figure can be fitted"];
      continue;
    }
    observe(observations_, op, old_.name, table.file);
    held_out_.push_back(static_cast<double>(hash_of(op, options_.seed) % kHashParts) <
                                options_.held_out * kHashParts
                            ? 1
                            : 0);
    ++used;
  }
  result.rows += used;
  if (used > 0) result.files.push_back(table.file);
  if (wrong > used) {
    std::string lines;
    for (std::size_t i = 0; i < std::min(result.refused.size(), kShownFaults); ++i)
      lines += fmt::format("\n  line {}: {}", result.refused[i].line, result.refused[i].problem);
    throw UserError({.file = table.file}, {},
                    fmt::format("{} of {} rows of this chip cannot be, too many to go on{}", wrong,
                                wrong + used, lines));
  }
}

std::vector<double> Calibrator::errors(const DeviceProfile& profile,
                                       const std::vector<std::size_t>& rows,
                                       const std::vector<TimingFloor>& floors) const {
  const CostModel model(profile);
  std::vector<double> errors;
  for (const std::size_t row : rows) {
    const Observation& o = observations_.all[row];
    const double kernels = kernel_seconds(*o.op, model);
    const double predicted = o.floor ? measured_as(kernels, floors[*o.floor]) : kernels;
    errors.push_back(predicted / o.op->seconds - 1);
  }
  return errors;
}

ClassFigures Calibrator::figures_of(FitClass fit_class,
                                    const std::vector<std::size_t>& rows) const {
  ClassFigures figures;
  std::vector<Work> kernels;
  for (const std::size_t row : rows) {
    const Observation& o = observations_.all[row];
    kernels.insert(kernels.end(), o.op->work.begin(), o.op->work.end());
    std::vector<std::size_t>& floors = figures.floors;
    if (o.floor && std::find(floors.begin(), floors.end(), *o.floor) == floors.end())
      floors.push_back(*o.floor);
  }
  // A class whose rows are all held out keeps its figures.
  if (!rows.empty()) figures.parameters = parameters_of(fit_class, fitted_, kernels);
  DeviceProfile prior = fitted_;
  for (const ProfileParameter& p : figures.parameters) {
    figures.variables.push_back({.start = std::clamp(p.value(prior), p.lower, p.upper),
                                 .lower = p.lower,
                                 .upper = p.upper,
                                 .spread = p.spread});
  }
  figures.variables.insert(figures.variables.end(), figures.floors.size(), kOverhead);
  return figures;
}

std::vector<FittedVariable> Calibrator::fit_to(const ClassFigures& figures,
                                               const std::vector<std::size_t>& rows) const {
  DeviceProfile tried = fitted_;
  std::vector<TimingFloor> timing = observations_.floors;
  return fit_bounded(figures.variables, rows.size(),
                     [&](const std::vector<double>& values, std::vector<double>& residuals) {
                       figures.apply(tried, timing, values);
                       residuals = errors(tried, rows, timing);
                     });
}

double Calibrator::share_to_follow(FitClass fit_class, const ClassFigures& figures,
                                   const std::vector<std::size_t>& rows) const {
  std::vector<std::uint64_t> hashes;
  hashes.reserve(rows.size());
  for (const std::size_t row : rows)
    hashes.push_back(hash_of(*observations_.all[row].op, options_.seed ^ kFoldSeed));
  const std::size_t different = std::set(hashes.begin(), hashes.end()).size();
  if (different < kFewestToValidate || figures.variables.empty()) return 1;
  const std::vector<std::size_t> folds = folds_of(hashes);
  UnseenErrors unseen;
  for (std::size_t fold = 0; fold < kFolds; ++fold) {
    std::vector<std::size_t> seen;
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < rows.size(); ++i)
      (folds[i] == fold ? left : seen).push_back(rows[i]);
    if (left.empty()) continue;
    const std::vector<FittedVariable> found = fit_to(figures, seen);
    for (std::size_t s = 0; s < kFollowedShares.size(); ++s) {
      DeviceProfile tried = fitted_;
      std::vector<TimingFloor> timing = observations_.floors;
      // Share 0 is the profile as it is, a figure beyond a bound among it.
      if (s > 0) figures.follow(tried, timing, found, kFollowedShares[s]);
      for (const double error : errors(tried, left, timing))
        unseen[s].push_back(std::abs(error));
    }
  }
  return followed_share(unseen, fit_class == FitClass::kStep ? JudgedBy::kMean : JudgedBy::kMedian);
}

CalibratedClass Calibrator::fit_class(FitClass fit_class, const std::vector<std::size_t>& rows) {
  CalibratedClass result{.fit_class = fit_class};
  std::vector<std::size_t> mine;
  std::vector<std::size_t> held;
  for (const std::size_t row : rows)
    (held_out_[row] != 0 ? held : mine).push_back(row);
  const ClassFigures figures = figures_of(fit_class, mine);
  const std::vector<FittedVariable> found = fit_to(figures, mine);
  result.followed = share_to_follow(fit_class, figures, mine);
  if (result.followed > 0) figures.follow(fitted_, observations_.floors, found, result.followed);
  DeviceProfile before = old_;
  for (std::size_t i = 0; i < figures.parameters.size(); ++i) {
    const ProfileParameter& p = figures.parameters[i];
    const double now = p.value(fitted_);
    // The interval is as wide as that of the fit.
    const double low = now * found[i].low / found[i].value;
    const double high = now * found[i].high / found[i].value;
    result.figures.push_back({.path = p.path,
                              .before = p.written(p.value(before)),
                              .after = p.written(now),
                              .low = p.written(std::min(now, std::max(p.lower, low))),
                              .high = p.written(std::max(now, std::min(p.upper, high))),
                              .at_bound = found[i].at_bound && result.followed == 1});
  }
  const std::vector<TimingFloor>& timing = observations_.floors;
  result.rows = mine.size();
  result.fit = summary_of(errors(fitted_, mine, timing));
  result.before = summary_of(errors(old_, held, old_floors_));
  result.after = summary_of(errors(fitted_, held, timing));
  return result;
}

void Calibrator::add_groups(const std::vector<std::size_t>& held, Calibration& result) const {
  std::map<std::string, std::vector<std::size_t>> groups;
  for (const std::size_t row : held)
    groups[observations_.all[row].group].push_back(row);
  for (const auto& [group, rows] : groups) {
    result.groups.push_back({.group = group,
                             .before = summary_of(errors(old_, rows, old_floors_)),
                             .after = summary_of(errors(fitted_, rows, observations_.floors))});
  }
}

void Calibrator::fit(Calibration& result) {
  std::vector<char> fitted_to;
  for (const char held : held_out_)
    fitted_to.push_back(held != 0 ? 0 : 1);
  set_floors(observations_, fitted_to);
  old_floors_ = observations_.floors;
  std::array<std::vector<std::size_t>, kFitClasses> rows;
  std::vector<std::size_t> held;
  for (std::size_t i = 0; i < observations_.all.size(); ++i) {
    const FitClass c = class_of(*observations_.all[i].op);
    rows[static_cast<std::size_t>(c)].push_back(i);
    if (held_out_[i] != 0) held.push_back(i);
  }
  for (std::size_t c = 0; c < rows.size(); ++c) {
    if (rows[c].empty()) continue;
    result.classes.push_back(fit_class(static_cast<FitClass>(c), rows[c]));
  }
  add_groups(held, result);
}

}  // namespace
}  // namespace calibrate_detail

Calibration calibrate(const DeviceProfile& profile, std::span<const MeasuredTable> tables,
                      std::span<const std::string> profiles, const CalibrationOptions& options) {
  Calibration result;
  calibrate_detail::Calibrator calibrator(profile, options);
  for (const MeasuredTable& table : tables)
    calibrator.add_table(table, profiles, result);
  if (result.rows == 0) {
    std::string reasons;
    for (const auto& [reason, count] : result.other)
      reasons += fmt::format("\n  {} rows: {}", count, reason);
    throw UserError(fmt::format("no row was measured on {}{}", profile.name, reasons));
  }
  calibrator.fit(result);
  return result;
}

}  // namespace tidemark
