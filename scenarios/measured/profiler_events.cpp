#include "scenarios/measured/profiler_events.hpp"

#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/core/errors.hpp"
#include "graph/core/value.hpp"
#include "sim/memory/trace/pickle_file.hpp"

namespace tidemark {
namespace profiler_events_detail {
namespace {

using Json = nlohmann::json;
using Dims = std::vector<std::int64_t>;

constexpr int kMaxDepth = 64;                          // brackets around a value; traces have six
constexpr std::size_t kMostBytes = 8 * kMaxFileBytes;  // of a trace, unpacked

// Returns an integer member; nothing where it is missing or none.
std::optional<std::int64_t> integer_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}

std::string text_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::vector<std::string> texts_in(const Json& object, const char* key) {
  std::vector<std::string> texts;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return texts;
  for (const Json& item : *found)
    texts.push_back(item.is_string() ? item.get<std::string>() : std::string());
  return texts;
}

// Returns the shapes of the arguments; one of a list of tensors counts as none.
std::vector<Dims> shapes_in(const Json& arguments) {
  std::vector<Dims> shapes;
  auto found = arguments.find("Input Dims");
  if (found == arguments.end()) found = arguments.find("Input dims");  // before PyTorch 1.12
  if (found == arguments.end() || !found->is_array()) return shapes;
  for (const Json& item : *found) {
    Dims& shape = shapes.emplace_back();
    if (!item.is_array()) continue;
    for (const Json& extent : item) {
      if (!extent.is_number_integer()) {
        shape.clear();
        break;
      }
      shape.push_back(extent.get<std::int64_t>());
    }
  }
  return shapes;
}

// Returns the types of arguments by PyTorch's names.
std::vector<std::optional<DType>> types_in(const Json& arguments) {
  static const std::map<std::string_view, DType> known{{"double", DType::kFloat64},
                                                       {"float", DType::kFloat32},
                                                       {"c10::Half", DType::kFloat16},
                                                       {"c10::BFloat16", DType::kBFloat16}};
  std::vector<std::optional<DType>> types;
  for (const std::string& name : texts_in(arguments, "Input type")) {
    const auto type = known.find(name);
    types.push_back(type == known.end() ? std::nullopt : std::optional(type->second));
  }
  return types;
}

// The GPUs that a trace names, and the one of its first kernel.
struct Devices {
  std::map<std::int64_t, std::string> names;
  std::optional<std::int64_t> used;
};

void add_kernel(const Json& event, const Json& arguments, int number, ProfilerEvents& trace,
                Devices& devices) {
  const auto duration = event.find("dur");  // microseconds
  if (duration == event.end() || !duration->is_number() || duration->get<double>() < 0) {
    const std::string found = duration == event.end() ? "none" : quoted_excerpt(duration->dump());
    trace.refused.push_back(
        {.line = number,
         .problem = fmt::format("event {}: dur: expected microseconds, found {}", number, found)});
    return;
  }
  if (!devices.used) devices.used = integer_in(arguments, "device");
  auto id = integer_in(arguments, "External id");
  if (!id) id = integer_in(arguments, "external id");  // PyTorch 1.8 to 1.12
  if (!id) {
    ++trace.kernels_of_none;
    return;
  }
  trace.kernels[*id].push_back(
      {.name = text_in(event, "name"), .seconds = duration->get<double>() * 1e-6});
}

void add_event(const Json& event, int number, ProfilerEvents& trace, Devices& devices) {
  const auto arguments = event.find("args");
  if (arguments == event.end() || !arguments->is_object()) return;
  const std::string category = text_in(event, "cat");
  if (category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset" ||
      category == "Kernel" || category == "Memcpy" || category == "Memset")
    return add_kernel(event, *arguments, number, trace, devices);
  const auto id = integer_in(*arguments, "External id");
  if ((category != "cpu_op" && category != "Operator") || !id) return;
  ProfiledCall call{.name = text_in(event, "name"),
                    .dims = shapes_in(*arguments),
                    .types = types_in(*arguments),
                    .concrete = texts_in(*arguments, "Concrete Inputs"),
                    .event = number};
  trace.has_shapes = trace.has_shapes || !call.dims.empty();
  trace.calls.emplace(*id, std::move(call));
}

}  // namespace
}  // namespace profiler_events_detail

// Reads the events one after the other: none is kept as it is in the file.
ProfilerEvents read_profiler_events(const std::string& path) {
  const std::string text = unpacked_file(path, {.begins_with = '{',
                                                .most = profiler_events_detail::kMostBytes,
                                                .free = kMaxFileBytes,
                                                .for_each_packed = 100});
  using Json = nlohmann::json;
  ProfilerEvents trace;
  profiler_events_detail::Devices devices;
  int number = 0;
  const auto keep = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > profiler_events_detail::kMaxDepth) {
      throw UserError({.file = path}, {},
                      fmt::format("is nested deeper than {}", profiler_events_detail::kMaxDepth));
    }
    // The document is at depth 0, its members at 1, an event or a device at 2.
    if (depth != 2 || event != Json::parse_event_t::object_end) return true;
    if (parsed.contains("ph")) profiler_events_detail::add_event(parsed, ++number, trace, devices);
    if (parsed.contains("totalGlobalMem")) {
      devices.names[profiler_events_detail::integer_in(parsed, "id").value_or(0)] =
          profiler_events_detail::text_in(parsed, "name");
    }
    return false;
  };
  try {
    [[maybe_unused]] const Json rest = Json::parse(text, keep);
  } catch (const Json::exception& error) {
    // nlohmann begins with its own name of the error, in brackets.
    const std::string_view what = error.what();
    const std::size_t name = what.starts_with('[') ? what.find("] ") : std::string_view::npos;
    throw UserError({.file = path}, {},
                    fmt::format("is no trace in JSON: {}",
                                name == std::string_view::npos ? what : what.substr(name + 2)));
  }
  if (number == 0) {
    throw UserError({.file = path}, {},
                    "has no events; expected what torch.profiler's export_chrome_trace() writes");
  }
  if (trace.kernels.empty() && trace.kernels_of_none == 0 && trace.refused.empty()) {
    throw UserError({.file = path}, {},
                    "has no kernels of a GPU; record with activities CPU and CUDA");
  }
  if (!trace.has_shapes)
    throw UserError({.file = path}, {}, "has no shapes; record with record_shapes=True");
  const auto device = devices.names.find(devices.used.value_or(0));
  if (device != devices.names.end()) trace.device = device->second;
  constexpr std::string_view kMaker = "NVIDIA ";
  if (trace.device.starts_with(kMaker)) trace.device.erase(0, kMaker.size());
  return trace;
}

}  // namespace tidemark
