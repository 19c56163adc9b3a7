#include "hwprofiles/calibrate/observations.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "graph/ir/convolutions.hpp"
#include "hwprofiles/gpu_names.hpp"

namespace tidemark {
namespace observations_detail {
namespace {

// A boost clock above the data sheet's, and rounding.
constexpr double kAbovePeak = 1.15;
// Winograd's kernels compute 3x3 windows with 16/36 of the multiplications, at best a quarter.
constexpr double kAboveConvolution = 4;
constexpr std::size_t kFloorRank = 50;  // the floor is the smallest of each 50 rows

// "A100-80 SXM" leaves the unit out.
std::string with_unit(const std::string& name) {
  std::string result;
  for (std::size_t i = 0; i < name.size();) {
    const bool digit = std::isdigit(static_cast<unsigned char>(name[i])) != 0;
    const bool begins =
        digit && i > 0 && std::isalnum(static_cast<unsigned char>(name[i - 1])) == 0;
    std::size_t end = i + 1;
    while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0)
      ++end;
    if (!begins) {
      result += name[i++];
      continue;
    }
    const bool alone =
        end == name.size() || std::isalnum(static_cast<unsigned char>(name[end])) == 0;
    result += name.substr(i, end - i) + (alone && end - i <= 3 ? "gb" : "");
    i = end;
  }
  return result;
}

double bytes_of(const Work& work) {
  return static_cast<double>((work.read + work.written).count);
}

}  // namespace
}  // namespace observations_detail

std::string chip_of(std::string_view profile) {
  std::string chip;
  std::size_t begin = 0;
  while (begin <= profile.size()) {
    const std::size_t end = std::min(profile.find('-', begin), profile.size());
    const std::string_view part = profile.substr(begin, end - begin);
    if (part == "sxm" || part == "pcie" || part == "nvl" || part.ends_with("gb")) break;
    chip += (chip.empty() ? "" : "-") + std::string(part);
    begin = end + 1;
  }
  return chip;
}

std::optional<std::string> device_called(const std::string& name,
                                         std::span<const std::string> profiles) {
  if (std::find(profiles.begin(), profiles.end(), name) != profiles.end()) return name;
  for (const std::string& text : {name, observations_detail::with_unit(name)}) {
    std::vector<std::string> meant = profiles_meant(text, profiles);
    std::vector<std::string> modules;
    for (const std::string& profile : meant) {
      if (profile.find("-sxm-") != std::string::npos) modules.push_back(profile);
    }
    if (!modules.empty()) meant = std::move(modules);
    if (meant.empty()) continue;
    // Several memories of one chip: the last by name has most.
    const std::string chip = chip_of(meant.back());
    const bool one_chip = std::all_of(meant.begin(), meant.end(), [&](const std::string& profile) {
      return chip_of(profile) == chip;
    });
    if (one_chip) return meant.back();
  }
  return std::nullopt;
}

bool is_device_of(const std::string& name, const std::string& profile,
                  std::span<const std::string> profiles) {
  if (name.empty() || name == profile || name_one_gpu(name, profile)) return true;
  const std::optional<std::string> called = device_called(name, profiles);
  return called && chip_of(*called) == chip_of(profile);
}

void observe(Observations& observations, const MeasuredOperator& op, const std::string& device,
             const std::string& table) {
  Observation observation{
      .op = &op, .device = device, .group = fmt::format("{} {}", device, op.kind)};
  if (op.host_floor) {
    const std::string group = fmt::format("{} in {}", observation.group, table);
    auto& groups = observations.floor_groups;
    const auto found = std::find(groups.begin(), groups.end(), group);
    observation.floor = static_cast<std::size_t>(found - groups.begin());
    if (found == groups.end()) {
      groups.push_back(group);
      observations.floors.emplace_back();
    }
  }
  observations.all.push_back(std::move(observation));
}

void set_floors(Observations& observations, const std::vector<char>& counts) {
  std::vector<std::vector<double>> times(observations.floors.size());
  for (std::size_t i = 0; i < observations.all.size(); ++i) {
    const Observation& observation = observations.all[i];
    if (observation.floor && counts[i] != 0)
      times[*observation.floor].push_back(observation.op->seconds);
  }
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i].empty()) continue;
    std::sort(times[i].begin(), times[i].end());
    const double floor = times[i][times[i].size() / observations_detail::kFloorRank];
    observations.floors[i] = {.floor = floor, .overhead = kUsualOverhead * floor};
  }
}

double kernel_seconds(const MeasuredOperator& op, const CostModel& alone) {
  const auto seconds = [](const Work& work, const CostModel& model) {
    return std::chrono::duration<double>(model.duration(work)).count();
  };
  double sum = 0;
  if (op.repeats.empty()) {
    for (const Work& work : op.work)
      sum += seconds(work, alone);
    return sum;
  }
  sum += op.waits;
  const CostModel within(within_step(alone.profile()));
  for (std::size_t i = 0; i < op.work.size(); ++i)
    sum += op.repeats[i] * seconds(op.work[i], within);
  return sum;
}

double measured_as(double kernels, const TimingFloor& floor) {
  return std::max(floor.floor, floor.overhead + kernels);
}

std::optional<std::string> impossible(const MeasuredOperator& op, const DeviceProfile& device) {
  const bool whole_step = !op.repeats.empty();
  double least = 0;  // seconds
  for (std::size_t i = 0; i < op.work.size(); ++i) {
    const Work& work = op.work[i];
    const double times = whole_step ? op.repeats[i] : 1;
    const DType type = matrix_type(device, work.dtype);
    const double peak = device.matrix[static_cast<std::size_t>(type)].peak.value;
    const bool product =
        work.op_class == OperatorClass::kMatmul || work.op_class == OperatorClass::kAttention;
    if (product) {
      least += times * work.flops.count / (observations_detail::kAbovePeak * peak);
    } else if (is_dense_convolution(work.op_class)) {
      least += times * work.flops.count / (observations_detail::kAboveConvolution * peak);
    } else if (!whole_step) {  // the kernels of a step leave operands to each other in L2
      // Operands that fit into L2 are read faster than from memory.
      const double rate = std::max(
          device.hbm.bandwidth.value,
          work.read + work.written <= device.l2.capacity * 2 ? device.l2.bandwidth.value : 0.0);
      least += observations_detail::bytes_of(work) / (observations_detail::kAbovePeak * rate);
    }
  }
  if (op.seconds >= least) return std::nullopt;
  return fmt::format("{} in {:.4g} us is {:.2g} times as fast as the peak of {} allows", op.text,
                     op.seconds * 1e6, least / op.seconds, device.name);
}

ErrorSummary summary_of(const std::vector<double>& errors) {
  ErrorSummary summary{.n = errors.size()};
  if (errors.empty()) return summary;
  std::vector<double> sizes;
  for (const double error : errors) {
    sizes.push_back(std::abs(error));
    summary.mape += std::abs(error);
    summary.bias += error;
  }
  const auto n = static_cast<double>(errors.size());
  summary.mape /= n;
  summary.bias /= n;
  std::sort(sizes.begin(), sizes.end());
  const std::size_t middle = sizes.size() / 2;
  summary.median = sizes.size() % 2 == 1 ? sizes[middle] : (sizes[middle - 1] + sizes[middle]) / 2;
  return summary;
}

}  // namespace tidemark
