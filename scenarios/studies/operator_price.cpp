#include "scenarios/studies/operator_price.hpp"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"
#include "graph/ir/convolutions.hpp"
#include "hwprofiles/cost_model.hpp"
#include "scenarios/results/breakdown_json.hpp"
#include "scenarios/results/result_document.hpp"
#include "sim/engine/cost_table.hpp"
#include "tidemark/version.hpp"

namespace tidemark {
namespace operator_price_detail {
namespace {

bool is_asked_for(const Operator& op, bool backward) {
  switch (op.part) {
    case OperatorPart::kForward:
      return op.phase == Phase::kForward;
    case OperatorPart::kInputGradient:
    case OperatorPart::kWeightGradient:
    case OperatorPart::kBiasGradient:
    case OperatorPart::kBackward:
      return backward;
    default:
      return false;
  }
}

// Products run on the units of their type, everything else on the vector units.
double peak_of(const Work& work, const DeviceProfile& device) {
  const bool product = work.op_class == OperatorClass::kMatmul ||
                       work.op_class == OperatorClass::kAttention ||
                       is_dense_convolution(work.op_class);
  if (product)
    return device.matrix[static_cast<std::size_t>(matrix_type(device, work.dtype))].peak.value;
  return (work.dtype == DType::kFloat64 ? device.vector.fp64 : device.vector.fp32).value;
}

// Splits a line at its commas; a field in quotes may hold some.
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  return fields;
}

}  // namespace
}  // namespace operator_price_detail

double OperatorPrice::efficiency() const {
  switch (bound) {
    case Bound::kCompute:
      return of_arithmetic;
    case Bound::kMemory:
      return of_bandwidth;
    case Bound::kLaunch:
      break;
  }
  return std::max(of_arithmetic, of_bandwidth);
}

std::vector<OperatorPrice> price_operator(const OperatorText& op, const DeviceProfile& device) {
  DeviceProfile alone = device;
  alone.sustained_matmul = 1;
  const CostTable costs = price(op.graph, CostModel(std::move(alone)));
  std::vector<OperatorPrice> prices;
  for (const OperatorId id : ids_of(op.graph.operators)) {
    const Operator& kernel = op.graph.operators[id];
    if (!is_priced_by_device(kernel.work.op_class)) continue;
    if (!operator_price_detail::is_asked_for(kernel, op.backward)) continue;
    if (costs.device[id].count() >= kLargestQuantity) {
      throw UserError(fmt::format("{} takes longer than the longest time that is counted, {}",
                                  op.text, format_duration(Duration(kLargestQuantity))));
    }
    OperatorPrice result{.text = op.text,
                         .kernel = kernel.name,
                         .op_class = kernel.work.op_class,
                         .time = costs.device[id],
                         .host = costs.dispatch[id],
                         .bound = bound_of(costs, id),
                         .flops = kernel.work.flops,
                         .bytes = kernel.work.read + kernel.work.written + kernel.work.apart,
                         .launches = kernel.work.launches};
    const double seconds = std::chrono::duration<double>(result.time).count();
    const double peak = operator_price_detail::peak_of(kernel.work, device);
    result.of_arithmetic = result.flops.count / (seconds * peak);
    result.of_bandwidth =
        static_cast<double>(result.bytes.count) / (seconds * device.hbm.bandwidth.value);
    prices.push_back(std::move(result));
  }
  return prices;
}

std::vector<OperatorText> read_operator_table(const std::string& path) {
  std::istringstream file(read_text_file(path));
  std::vector<OperatorText> operators;
  std::size_t column = 0;
  std::string line;
  bool has_header = false;
  for (int number = 1; std::getline(file, line); ++number) {
    const Location here{.file = path, .line = number, .column = 1};
    if (number == 1 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);  // byte order mark
    if (line.empty() || line == "\r" || line.front() == '#') continue;
    const std::vector<std::string> fields = operator_price_detail::fields_of(line);
    if (!has_header) {
      const auto found = std::find(fields.begin(), fields.end(), "operator");
      if (found == fields.end()) {
        throw UserError(here, {},
                        "expected a header with a column `operator`; below it lines such as "
                        "linear 4096x4096x4096 bf16");
      }
      column = static_cast<std::size_t>(found - fields.begin());
      has_header = true;
      continue;
    }
    if (column >= fields.size())
      throw UserError(here, {}, fmt::format("has {} of {} columns", fields.size(), column + 1));
    operators.push_back(read_operator(fields[column], here));
  }
  if (operators.empty()) throw UserError({.file = path}, {}, "has no operators");
  return operators;
}

nlohmann::ordered_json prices_json(std::span<const OperatorPrice> prices,
                                   const DeviceProfile& device) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const OperatorPrice& entry : prices) {
    const double time = seconds(entry.time);
    list.push_back({{"operator", entry.text},
                    {"kernel", entry.kernel},
                    {"class", name_of(entry.op_class)},
                    {"time", time},
                    {"host", seconds(entry.host)},
                    {"bound", name_of(entry.bound)},
                    {"efficiency", entry.efficiency()},
                    {"flops", count_json(entry.flops.count)},
                    {"bytes", entry.bytes.count},
                    {"launches", entry.launches},
                    {"flops_per_second", entry.flops.count / time},
                    {"bytes_per_second", static_cast<double>(entry.bytes.count) / time}});
  }
  return {{"tidemark", kVersion}, {"gpu", device.name}, {"operators", std::move(list)}};
}

}  // namespace tidemark
