#include "scenarios/measured/nsight_ranges.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/core/errors.hpp"
#include "hwprofiles/measured/row_reader.hpp"
#include "scenarios/measured/profiled_operators.hpp"

namespace tidemark {
namespace nsight_ranges_detail {
namespace {

constexpr std::string_view kName = "Name";
constexpr std::string_view kDuration = "Projected Duration (ns)";
constexpr std::string_view kChildren = "NumChild";

using Shapes = std::vector<std::vector<std::int64_t>>;

// Whether the columns are those of cuda_gpu_trace, cuda_api_trace or one of the sums
// (cuda_gpu_kern_sum, nvtx_sum).
bool is_of_kernels(const CsvTable& table) {
  return table.has("Total Time (ns)") || (table.has("Duration (ns)") && table.has("CorrId")) ||
         (table.has("Duration (ns)") && table.has("CorrID"));
}

// Reads "[[6], [8, 4], []]"; nothing where a list is not closed or an extent is no number. What
// follows the list is left alone.
std::optional<Shapes> shapes_of(std::string_view text) {
  Shapes shapes;
  std::string digits;
  int depth = 0;
  for (const char c : text) {
    if (c == '[') {
      if (++depth == 2) shapes.emplace_back();
    } else if (c == ']' || c == ',') {
      const auto extent = number_in(digits);
      if (depth >= 2 && extent && *extent >= 0 && *extent < 1e15) {
        shapes.back().push_back(static_cast<std::int64_t>(*extent));
      } else if (!digits.empty()) {
        return std::nullopt;
      }
      digits.clear();
      if (c == ']' && --depth == 0) return shapes;
    } else if (c != ' ') {
      digits += c;
    }
  }
  return std::nullopt;
}

// Reads the operator of a range; nothing where the name is that of something else.
std::optional<ProfiledCall> call_of(std::string_view name, DType type) {
  constexpr std::string_view kSizes = "sizes = ";
  while (name.starts_with(':'))
    name.remove_prefix(1);
  const std::size_t end = name.find(',');
  const std::size_t at = name.find(kSizes);
  if (!name.starts_with("aten::") || end == std::string_view::npos || at == std::string_view::npos)
    return std::nullopt;
  auto shapes = shapes_of(name.substr(at + kSizes.size()));
  if (!shapes) return std::nullopt;
  ProfiledCall call{.name = std::string(name.substr(0, end)), .dims = std::move(*shapes)};
  call.types.assign(call.dims.size(), type);
  return call;
}

}  // namespace
}  // namespace nsight_ranges_detail

bool is_nsight_table(const CsvTable& table) {
  return table.has(nsight_ranges_detail::kName) &&
         (table.has(nsight_ranges_detail::kDuration) || nsight_ranges_detail::is_of_kernels(table));
}

MeasuredTable read_nsight_ranges(const CsvTable& table, std::optional<DType> dtype) {
  if (!table.has(nsight_ranges_detail::kDuration)) {
    throw UserError({.file = table.file}, {},
                    "is a report of Nsight Systems about kernels or calls, which say neither their "
                    "operator nor its shapes; export the ranges of PyTorch's operators: nsys stats "
                    "--report nvtx_gpu_proj_trace --format csv");
  }
  if (!dtype) {
    throw UserError({.file = table.file}, {},
                    "ranges of Nsight Systems do not say the type of their operators: add --dtype "
                    "fp16, bf16, tf32 or fp32");
  }
  const DType type = *dtype;
  const std::size_t name = table.column(nsight_ranges_detail::kName);
  const std::size_t duration = table.column(nsight_ranges_detail::kDuration);
  const std::size_t children = table.column(nsight_ranges_detail::kChildren);
  ProfiledOperators operators;
  bool any = false;
  for (const CsvRow& row : table.rows) {
    if (row.cells.size() <= std::max({name, duration, children})) {
      operators.count_other("rows with too few cells");
      continue;
    }
    // The innermost range owns the kernels.
    if (row.cells[children] != "0") continue;
    auto call = nsight_ranges_detail::call_of(row.cells[name], type);
    if (!call) {
      operators.count_other("ranges of no operator");
      continue;
    }
    any = true;
    double seconds = 0;
    try {
      seconds = RowReader(table, row).positive(nsight_ranges_detail::kDuration) * 1e-9;
    } catch (const RowFault& fault) {
      operators.refuse({.line = row.line, .problem = fault.problem});
      continue;
    }
    call->event = row.line;
    // A copy may be a cast, or one to or from the host: the range does not say it.
    if (call->name == "aten::copy_") {
      operators.count_other("copies, which may be casts");
    } else {
      operators.add(*call, {{.name = {}, .seconds = seconds}});
    }
  }
  if (!any) {
    throw UserError({.file = table.file}, {},
                    "has no ranges of operators with shapes; record below "
                    "torch.autograd.profiler.emit_nvtx(record_shapes=True)");
  }
  return operators.table(table.file, {});
}

}  // namespace tidemark
