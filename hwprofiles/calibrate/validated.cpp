#include "hwprofiles/calibrate/validated.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include "hwprofiles/calibrate/bounded_fit.hpp"

namespace tidemark {
namespace validated_detail {
namespace {

constexpr FitVariable kOverhead{.start = kUsualOverhead, .lower = 0.02, .upper = 1, .spread = 0.5};

// Returns each name once, though a profile may stand in several folders: a name that means one
// profile must not seem to mean two.
std::vector<std::string> all_profiles(std::span<const std::string> folders) {
  std::vector<std::string> names;
  for (const std::string& folder : folders) {
    for (std::string& name : profile_names(folder))
      names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// Fits the overhead of each floor to the kernels of its rows.
void fit_overheads(Observations& observations, const std::vector<double>& kernels) {
  for (std::size_t f = 0; f < observations.floors.size(); ++f) {
    std::vector<std::size_t> rows;
    for (std::size_t i = 0; i < observations.all.size(); ++i) {
      if (observations.all[i].floor == f) rows.push_back(i);
    }
    const double floor = observations.floors[f].floor;
    const std::vector<FittedVariable> fitted = fit_bounded(
        {kOverhead}, rows.size(), [&](const std::vector<double>& values, std::vector<double>& r) {
          for (std::size_t j = 0; j < rows.size(); ++j) {
            const double predicted =
                measured_as(kernels[rows[j]], {.floor = floor, .overhead = values[0] * floor});
            r[j] = std::log(predicted / observations.all[rows[j]].op->seconds);
          }
        });
    observations.floors[f].overhead = fitted.front().value * floor;
  }
}

}  // namespace
}  // namespace validated_detail

namespace validated_detail {
namespace {

// Returns the errors of rows by group and metric, in the order in which they come.
template <typename NameOf>
std::vector<ValidatedGroup> summed_up(std::span<const ValidatedRow> rows, const NameOf& name_of) {
  std::vector<ValidatedGroup> groups;
  std::vector<std::vector<double>> errors;
  std::map<std::pair<std::string, std::string>, std::size_t> places;
  for (const ValidatedRow& row : rows) {
    const std::pair<std::string, std::string> name = name_of(row);
    if (name.first.empty()) continue;
    const auto [place, added] = places.try_emplace(name, groups.size());
    if (added) {
      groups.push_back({.group = name.first, .metric = name.second, .errors = {}});
      errors.emplace_back();
    }
    errors[place->second].push_back(row.error());
  }
  for (std::size_t i = 0; i < groups.size(); ++i)
    groups[i].errors = summary_of(errors[i]);
  return groups;
}

}  // namespace
}  // namespace validated_detail

std::vector<ValidatedGroup> groups_of(std::span<const ValidatedRow> rows) {
  return validated_detail::summed_up(
      rows, [](const ValidatedRow& row) { return std::pair(row.group, row.metric); });
}

std::string overall_group(ValueUnit unit, std::int64_t gpus) {
  constexpr std::array<std::string_view, 3> kKinds{"rate", "memory", "time"};
  return fmt::format("{} on {}", kKinds.at(static_cast<std::size_t>(unit)),
                     gpus == 1 ? "one GPU" : "several GPUs");
}

std::vector<ValidatedGroup> overall_groups_of(std::span<const ValidatedRow> rows) {
  return validated_detail::summed_up(
      rows, [](const ValidatedRow& row) { return std::pair(row.overall, std::string()); });
}

namespace validated_detail {
namespace {

// Returns the profile of a device that a table names: `profile` where it is given and is of the
// same chip, or the table names none; nothing for other devices.
std::optional<std::string> profile_for(const std::string& device, const DeviceProfile* profile,
                                       const std::vector<std::string>& profiles) {
  if (profile == nullptr) return device_called(device, profiles);
  if (is_device_of(device, profile->name, profiles)) return profile->name;
  return std::nullopt;
}

void add_rows(const MeasuredTable& table, const Observations& observations,
              const std::vector<double>& kernels, Validation& validation) {
  for (std::size_t i = 0; i < observations.all.size(); ++i) {
    const Observation& o = observations.all[i];
    validation.rows.push_back(
        {.group = o.group,
         .metric = "time",
         .unit = ValueUnit::kSeconds,
         .text = o.op->text,
         .file = table.file,
         .line = o.op->line,
         .predicted = o.floor ? measured_as(kernels[i], observations.floors[*o.floor]) : kernels[i],
         .measured = o.op->seconds});
  }
}

}  // namespace
}  // namespace validated_detail

void validate_operators(const MeasuredTable& table, const DeviceProfile* profile,
                        std::span<const std::string> folders, ProfileCache& cache,
                        Validation& validation) {
  for (const RefusedRow& row : table.refused)
    validation.refused.push_back({.file = table.file, .line = row.line, .problem = row.problem});
  for (const auto& [reason, count] : table.other)
    validation.other[reason] += count;
  const std::vector<std::string> profiles = validated_detail::all_profiles(folders);
  std::map<std::string, std::optional<std::string>> devices;  // by the table's name
  std::map<std::string, std::unique_ptr<CostModel>> models;   // by profile
  if (profile != nullptr) models[profile->name] = std::make_unique<CostModel>(*profile);
  Observations observations;
  std::vector<double> kernels;
  for (const MeasuredOperator& op : table.operators) {
    const auto [device, added] = devices.try_emplace(op.device);
    if (added) device->second = validated_detail::profile_for(op.device, profile, profiles);
    if (!device->second) {
      const std::string unknown = op.device.empty()
                                      ? std::string("no device is named: add --gpu NAME")
                                      : fmt::format("no profile for {}", quoted_excerpt(op.device));
      ++validation.other[profile != nullptr ? std::string("other devices") : unknown];
      continue;
    }
    std::unique_ptr<CostModel>& model = models[*device->second];
    if (model == nullptr) {
      model = std::make_unique<CostModel>(
          load_device_profile(*device->second, folders, nullptr, {}, &cache));
    }
    if (const auto fault = impossible(op, model->profile())) {
      validation.refused.push_back({.file = table.file, .line = op.line, .problem = *fault});
      continue;
    }
    observe(observations, op, *device->second, table.file);
    kernels.push_back(kernel_seconds(op, *model));
  }
  set_floors(observations, std::vector<char>(observations.all.size(), 1));
  validated_detail::fit_overheads(observations, kernels);
  validated_detail::add_rows(table, observations, kernels, validation);
}

}  // namespace tidemark
