#include "scenarios/measured/profiler_trace.hpp"

#include <algorithm>
#include <string_view>

#include "graph/core/document.hpp"
#include "graph/core/piped_files.hpp"
#include "scenarios/measured/profiled_operators.hpp"
#include "scenarios/measured/profiler_events.hpp"
#include "sim/memory/trace/text_file.hpp"

namespace tidemark {

bool is_profiler_trace(const std::string& path) {
  if (path.ends_with(".json") || path.ends_with(".json.gz")) return true;
  if (!is_open_file_of_process(path)) return false;
  const std::string beginning = beginning_of(path);
  std::string_view text = without_byte_order_mark(beginning);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return text.starts_with('{') || text.starts_with('[');  // a table starts with a name
}

MeasuredTable read_profiler_trace(const std::string& path) {
  const ProfilerEvents trace = read_profiler_events(path);
  ProfiledOperators operators;
  for (const auto& [id, kernels] : trace.kernels) {
    const auto call = trace.calls.find(id);
    if (call == trace.calls.end()) {
      operators.count_other("kernels of no operator");
    } else {
      operators.add(call->second, kernels);
    }
  }
  if (trace.kernels_of_none > 0)
    operators.count_other("kernels of no operator", trace.kernels_of_none);
  for (const RefusedRow& kernel : trace.refused)
    operators.refuse(kernel);
  return operators.table(path, trace.device);
}

}  // namespace tidemark
