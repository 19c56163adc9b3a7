#include "sim/result/generation.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "graph/operators/generation/cache_operators.hpp"

namespace tidemark {
namespace result_generation_detail {
namespace {

constexpr double kNanoseconds = 1e9;

// Returns the instructions of the last step that end its passes.
std::vector<std::uint32_t> ends_of_passes(const GenerationRun& run) {
  std::vector<std::uint32_t> ends;
  for (std::uint32_t i = 0; i < run.program.size(); ++i) {
    if (run.program.opcode[i] != Opcode::kLaunch) continue;
    if (!run.program.slot[run.program.position[i].index()].last_step) continue;
    const Operator& op = run.graph.operators[OperatorId(run.program.subject[i])];
    const bool ends_pass = op.part == OperatorPart::kForward && op.family == &next_token_family();
    if (ends_pass && run.scratch.finished[i] >= 0) ends.push_back(i);
  }
  return ends;
}

// Returns the time in which the kernels after `before` move their operands once.
Duration memory_bound(const GenerationRun& run, std::uint32_t before, std::uint32_t last,
                      const DeviceProfile& device) {
  double bytes = 0;
  for (std::uint32_t i = before + 1; i <= last; ++i) {
    if (run.program.opcode[i] != Opcode::kLaunch) continue;
    const Work& work = run.graph.operators[OperatorId(run.program.subject[i])].work;
    bytes += static_cast<double>((work.read + work.written + work.apart).count);
  }
  const double seconds = bytes / device.hbm.bandwidth.value;
  return Duration(std::llround(seconds * kNanoseconds));
}

void fill_memory(const GenerationRun& run, std::uint32_t first, std::uint32_t last,
                 GenerationFigures& figures) {
  const auto first_token = Duration(run.scratch.finished[first]);
  for (const TimelinePoint& point : run.timeline.points) {
    const bool cache = run.program.allocations[point.allocation].role == Role::kKeyValueCache;
    if (cache && point.instruction <= last && point.sign != 0) {
      const Bytes bytes = run.program.allocations[point.allocation].bytes;
      figures.cache.count += point.sign * bytes.count;
    }
    if (point.time < run.timeline.last_step_begin) continue;
    Bytes& peak = point.time < first_token ? figures.prefill_peak : figures.decode_peak;
    peak = std::max(peak, point.live);
  }
}

}  // namespace
}  // namespace result_generation_detail

double GenerationFigures::tokens_per_second() const {
  const double seconds =
      static_cast<double>(decode.count()) / result_generation_detail::kNanoseconds;
  return seconds > 0 ? static_cast<double>(batch * (options.tokens - 1)) / seconds : 0;
}

GenerationFigures generation_figures(const GenerationOptions& options, const GenerationRun& run,
                                     const DeviceProfile& device, Bytes overhead) {
  GenerationFigures figures{.options = options, .batch = run.graph.samples};
  const std::vector<std::uint32_t> ends = result_generation_detail::ends_of_passes(run);
  if (ends.empty()) return figures;
  const auto end_of = [&](std::uint32_t i) { return Duration(run.scratch.finished[i]); };
  figures.prefill = end_of(ends.front()) - run.timeline.last_step_begin;
  figures.decode = end_of(ends.back()) - end_of(ends.front());
  result_generation_detail::fill_memory(run, ends.front(), ends.back(), figures);
  if (ends.size() > 1) {
    const std::uint32_t before = ends[ends.size() - 2];
    figures.first_step = end_of(ends[1]) - end_of(ends[0]);
    figures.last_step = end_of(ends.back()) - end_of(before);
    figures.memory_bound = result_generation_detail::memory_bound(run, before, ends.back(), device);
  }
  if (options.cache == CacheKind::kPaged) {
    const Bytes peak = std::max(figures.prefill_peak, figures.decode_peak);
    const double share = options.utilization * static_cast<double>(device.hbm.capacity.count);
    const double room = share - static_cast<double>((overhead + peak - figures.cache).count);
    const std::int64_t blocks = figures.batch * options.blocks();
    const double block = static_cast<double>(figures.cache.count) / static_cast<double>(blocks);
    if (block > 0) {
      figures.blocks_that_fit =
          std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(room / block)));
    }
  }
  return figures;
}

}  // namespace tidemark
