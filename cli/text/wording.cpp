#include "cli/text/wording.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/core/paths.hpp"
#include "graph/core/piped_files.hpp"
#include "graph/core/printable.hpp"
#include "scenarios/results/document_json.hpp"

namespace tidemark {
namespace wording_detail {
namespace {

using Json = nlohmann::ordered_json;

std::string scalar_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// Returns for example "torch(expandable_segments true)".
std::string named_text(const std::string& name, const Json& parameters) {
  std::string list;
  for (const auto& [key, value] : parameters.items()) {
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", key, scalar_text(value));
  }
  return list.empty() ? name : fmt::format("{}({})", name, list);
}

// Words {"checkpoint_every": {"period": 1}} or "revolve".
std::string policy_text(const Json& policy) {
  if (!policy.is_object() || policy.size() != 1) return scalar_text(policy);
  const Json& parameters = policy.begin().value();
  if (parameters.is_string())  // fused_loss: liger
    return fmt::format("{}({})", policy.begin().key(), scalar_text(parameters));
  return named_text(policy.begin().key(), parameters.is_object() ? parameters : Json::object());
}

// Words {"kind": "torch", "expandable_segments": true}: the name first, then its parameters.
std::string mapping_text(Json mapping) {
  for (const char* key : {"kind", "preset", "gpu", "name"}) {
    const auto name = mapping.find(key);
    if (name == mapping.end() || !name->is_string()) continue;
    const std::string text = name->get<std::string>();
    mapping.erase(name);
    return named_text(text, mapping);
  }
  // A model in a file is shown by its name, without the user's folders.
  for (const char* key : {"hf", "onnx", "graph", "layers"}) {
    const auto path = mapping.find(key);
    if (path == mapping.end() || !path->is_string()) continue;
    const std::filesystem::path named = path->get<std::string>();
    const std::string file =
        is_open_file_of_process(named) ? title_of_file(named) : named.filename().string();
    mapping.erase(path);
    return named_text(file, mapping);
  }
  return mapping.dump();
}

}  // namespace
}  // namespace wording_detail

BytesColumn::BytesColumn(Bytes largest) {
  const bool gib = largest >= kGiB;
  const bool mib = largest >= kMiB;
  scale_ = static_cast<double>(gib ? kGiB.count : mib ? kMiB.count : 1);
  decimals_ = gib ? 2 : mib ? 1 : 0;
  unit_ = gib ? "GiB" : mib ? "MiB" : "B";
}

std::string BytesColumn::text(Bytes bytes) const {
  return fmt::format("{:.{}f} {}", static_cast<double>(bytes.count) / scale_, decimals_, unit_);
}

std::string grouped(std::int64_t number) {
  std::string digits = fmt::to_string(number);
  const std::size_t first = number < 0 ? 1 : 0;
  for (std::size_t i = digits.size(); i > first + 3;) {
    i -= 3;
    digits.insert(i, 1, ',');
  }
  return digits;
}

std::string rate(double per_second) {
  if (per_second >= 999.5) return grouped(std::llround(per_second));
  return fmt::format("{:.{}f}", per_second, per_second >= 99.95 ? 0 : per_second >= 9.995 ? 1 : 2);
}

std::string operations(Flops flops) {
  const std::string rate = format_flops_rate({flops.count});
  return rate.substr(0, rate.find('/'));
}

std::string percent(double share) {
  const double value = share * 100;
  return std::abs(value) >= 9.95 || value == 0 ? fmt::format("{:.0f} %", value)
                                               : fmt::format("{:.1f} %", value);
}

std::string share_of(Bytes part, Bytes whole) {
  if (whole <= Bytes(0)) return "";
  return percent(static_cast<double>(part.count) / static_cast<double>(whole.count));
}

std::string share_of(Duration part, Duration whole) {
  if (whole <= Duration(0)) return "";
  return percent(static_cast<double>(part.count()) / static_cast<double>(whole.count()));
}

std::string in_seconds(Duration duration, Duration largest) {
  const auto ns = static_cast<double>(duration.count());
  if (largest >= std::chrono::seconds(10)) return fmt::format("{:.2f} s", ns * 1e-9);
  if (largest >= std::chrono::milliseconds(10)) return fmt::format("{:.1f} ms", ns * 1e-6);
  return fmt::format("{:.3f} ms", ns * 1e-6);
}

bool is_close(Bytes used, Bytes capacity) {
  const auto room = static_cast<double>(capacity.count - used.count);
  return used <= capacity && room < kPeakError * static_cast<double>(capacity.count);
}

bool is_close(const PointResult& point) {
  return point.status == PointStatus::kFits && is_close(point.device_needed(), point.capacity);
}

std::string close_runs(std::ptrdiff_t count) {
  if (count == 0) return {};
  return fmt::format("{} of these leave{} less than {} of the memory free, and {}.", count,
                     count == 1 ? "s" : "", kPeakErrorText, kCloseReason);
}

std::string short_setting(const Value& setting) {
  const wording_detail::Json value = to_json(setting);
  if (value.is_object()) return wording_detail::mapping_text(value);
  if (!value.is_array()) return wording_detail::scalar_text(value);
  if (value.empty()) return "no policy";
  std::string text;
  for (const wording_detail::Json& item : value)
    text += (text.empty() ? "" : " + ") + wording_detail::policy_text(item);
  return text;
}

std::string communication_text(const Communication& used, const Mesh& mesh) {
  const std::string shared = used.shared > Duration(0)
                                 ? fmt::format(", {} of it because others were on the same links",
                                               format_duration(used.shared))
                                 : "";
  return fmt::format("{} {} operation{} of {} over {} {} ranks: {} busy{}, {} of it exposed",
                     grouped(used.count), name_of(used.kind), used.count == 1 ? "" : "s",
                     format_bytes(used.bytes), ranks_of(used, mesh), name_of(used.group),
                     format_duration(used.busy), shared, format_duration(used.exposed));
}

std::string loader_text(const LoaderFigures& loader) {
  return fmt::format(
      "a batch of {} every {}; up to {} ahead: {} of shared and {} of page-locked host memory",
      format_bytes(loader.batch), format_duration(loader.interval), grouped(loader.outstanding),
      format_bytes(loader.shared_memory + loader.workers), format_bytes(loader.page_locked));
}

std::string load_text(const LoadFigures& load) {
  return fmt::format(
      "the weights take {} on the device and {} of host memory at most{}",
      format_bytes(load.device_peak), format_bytes(load.host_peak),
      load.processes > 1 ? fmt::format(", which {} processes read", grouped(load.processes)) : "");
}

std::string over_budget(const PointResult& point) {
  for (const PolicyOutcome& outcome : point.policies) {
    if (!outcome.plan || !outcome.plan->infeasible.empty()) continue;
    const Bytes over = point.run.live.bytes - outcome.plan->budget;
    if (over <= Bytes(0)) continue;
    return fmt::format("{} passes its budget of {} by {}: the peak is {}, in {}", outcome.name,
                       format_bytes(outcome.plan->budget), format_bytes(over),
                       format_bytes(point.run.live.bytes), name_of(point.peak.phase));
  }
  return {};
}

std::string place(Phase phase, std::string_view layer, std::string_view op) {
  return fmt::format("{}, {}{}{}", name_of(phase), layer, layer.empty() ? "" : ": ", op);
}

std::string title_of(std::span<const PointResult> points) {
  if (points.empty()) return "Tidemark";
  const bool one_name = std::all_of(points.begin(), points.end(), [&](const PointResult& point) {
    return point.name == points.front().name;
  });
  return one_name ? printable(points.front().name) : fmt::format("{} points", points.size());
}

std::string bar(double share, std::size_t width) {
  static constexpr std::string_view kBlocks[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<std::size_t>(
      std::ceil(std::clamp(share, 0.0, 1.0) * static_cast<double>(width) * 8 - 1e-9));
  std::string text;
  for (std::size_t i = 0; i < eighths / 8; ++i)
    text += "█";
  return text + std::string(kBlocks[eighths % 8]);
}

}  // namespace tidemark
