#include "sim/engine/cost_table.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

namespace tidemark {
namespace cost_table_detail {
namespace {

double ns_per_byte(BytesPerSecond rate) {
  return rate.value > 0 ? 1e9 / rate.value : 0;
}

// `most` is this rank's part of the host's memory bandwidth.
CostTable::Link link_of(const LinkProfile& link, const LinkProfile& other, double most) {
  // With both directions busy neither takes more than half, unless the other leaves something.
  const double both = std::max(most / 2, most - other.duplex.value);
  return {.ns_per_byte_alone = ns_per_byte({std::min(link.alone.value, most)}),
          .ns_per_byte_duplex = ns_per_byte({std::min(link.duplex.value, both)}),
          .latency = link.latency};
}

CostTable::Link link_of(const NvmeProfile& nvme, BytesPerSecond rate, int sharing) {
  const double ns = ns_per_byte({nvme.reached(rate).value / sharing});
  return {.ns_per_byte_alone = ns, .ns_per_byte_duplex = ns, .latency = nvme.latency};
}

// An optimizer on the CPU runs at the rate of its memory traffic.
Duration host_duration(const Work& work, double rate) {
  if (work.op_class == OperatorClass::kFixed) return work.fixed;
  const auto traffic = static_cast<double>((work.read + work.written).count);
  constexpr auto kMost = static_cast<double>(kLargestQuantity);
  return Duration(rate > 0 ? std::llround(std::min(traffic * 1e9 / rate, kMost)) : 0);
}

// Returns how many standard deviations the lowest of `ranks` normal values lies below the mean
// (Blom 1958, error at most 0.03).
double below_mean(int ranks) {
  const double share = (ranks - 0.375) / (ranks + 0.25);
  double low = 0;
  double high = 8;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::numbers::sqrt2) < share ? low : high) = middle;
  }
  return low;
}

// Kernels within a step, not alone: products at the rate that the board sustains, and at that of
// the slowest of the ranks, for which the others wait.
CostModel in_steps(const CostModel& alone, bool graphs, int ranks) {
  DeviceProfile profile =
      within_step(alone.profile(), 1 - alone.profile().matmul_spread * below_mean(ranks));
  if (graphs) profile.launch.kernel = profile.launch.in_graph;
  return CostModel(std::move(profile));
}

// Returns how much longer memory traffic takes beside a collective.
double tax_of(const Collective& collective, const InterconnectModel& interconnect,
              Duration duration, double hbm) {
  const double seconds = std::chrono::duration<double>(duration).count();
  if (!(hbm > 0) || !(seconds > 0)) return 0;
  return static_cast<double>(interconnect.traffic(collective).count) / seconds / hbm;
}

// Leaves the host one dispatch for each graph of the step: its parts, cut where the host waits.
void record_graphs(const TrainingGraph& graph, IdVector<OperatorId, Duration>& dispatch) {
  IdVector<OperatorId, Duration> launches(dispatch.size());
  for (const StepPart& part : graph.parts.all()) {
    bool begins = true;
    for (const OperatorId id : part.operators) {
      const Operator& op = graph.operators[id];
      if (op.executor == Executor::kHost) {  // no kernel: the host itself works
        launches[id] = dispatch[id];
        begins = true;
        continue;
      }
      if (begins && dispatch[id] > Duration(0)) {
        launches[id] = dispatch[id];
        begins = false;
      }
      if (op.blocks_host) begins = true;
    }
  }
  dispatch = std::move(launches);
}

}  // namespace
}  // namespace cost_table_detail

CostTable price(const TrainingGraph& graph, const CostModel& eager, const Mesh& mesh,
                HostClock clock) {
  const bool graphs = clock == HostClock::kCudaGraphs;
  const CostModel model = cost_table_detail::in_steps(eager, graphs, mesh.ranks());
  const DeviceProfile& device = model.profile();
  CostTable table;
  const InterconnectModel interconnect(device, mesh);
  const int sharing = mesh.ranks_on_host();
  const double dram = device.host.dram_bandwidth.value;
  const double most = dram > 0 ? dram / sharing : std::numeric_limits<double>::infinity();
  const double optimizer = std::min(device.host.optimizer_bandwidth.value, most);
  table.memory.reserve(graph.operators.size());
  table.slack.reserve(graph.operators.size());
  table.device.reserve(graph.operators.size());
  table.dispatch.reserve(graph.operators.size());
  for (const Operator& op : graph.operators) {
    const bool free = op.work.op_class == OperatorClass::kNone;
    const bool on_host = op.executor == Executor::kHost;
    const bool communicates = op.work.op_class == OperatorClass::kCollective;
    const Duration duration = communicates ? interconnect.duration(op.work.collective)
                              : on_host    ? cost_table_detail::host_duration(op.work, optimizer)
                                           : model.duration(op.work);
    const Duration memory = std::min(duration, model.memory_duration(op.work));
    const Duration floor = model.launch_duration(op.work);
    table.device.push_back(duration);
    table.memory.push_back(memory);
    table.slack.push_back(std::max(duration - memory - floor, Duration(0)));
    if (mesh.ranks() > 1) {
      table.tax_collective.push_back(
          communicates ? cost_table_detail::tax_of(op.work.collective, interconnect, duration,
                                                   device.hbm.bandwidth.value)
                       : 0);
      table.link_use.push_back(communicates ? interconnect.use(op.work.collective) : LinkUse());
    }
    // Nodes of a cost graph are abstract: only their cost counts.
    const bool abstract = free || op.work.op_class == OperatorClass::kFixed;
    table.dispatch.push_back(abstract ? Duration(0) : model.dispatch_duration(op.work));
  }
  if (graphs) cost_table_detail::record_graphs(graph, table.dispatch);
  const LinkProfile& out = device.links.device_to_host;
  const LinkProfile& in = device.links.host_to_device;
  table.copy_out = cost_table_detail::link_of(out, in, most);
  table.copy_in = cost_table_detail::link_of(in, out, most);
  table.nvme_read = cost_table_detail::link_of(device.nvme, device.nvme.read, sharing);
  table.nvme_write = cost_table_detail::link_of(device.nvme, device.nvme.write, sharing);
  table.page_locking_ns_per_byte = cost_table_detail::ns_per_byte(device.host.pinned_allocation);
  table.copy_dispatch = graphs ? Duration(0) : device.host.launch;
  const double hbm = device.hbm.bandwidth.value;
  if (hbm > 0) {
    table.tax_copy_out = device.links.hbm_tax * std::min(out.alone.value, most) / hbm;
    table.tax_copy_in = device.links.hbm_tax * std::min(in.alone.value, most) / hbm;
  }
  table.copies_share_inside = mesh.ranks() > 1 && !(device.links.nvlink.value > 0);
  table.collective_multiprocessors =
      static_cast<double>(device.links.collective.channels) / std::max(1, device.multiprocessors);
  table.synchronize = device.host.synchronize;
  table.device_malloc = device.host.device_malloc;
  table.device_free = device.host.device_free;
  return table;
}

IdVector<OperatorId, Duration> compute_durations(const TrainingGraph& graph,
                                                 const CostTable& costs) {
  IdVector<OperatorId, Duration> durations = costs.device;
  for (OperatorId op : ids_of(graph.operators)) {
    if (graph.operators[op].work.op_class == OperatorClass::kCollective)
      durations[op] = Duration(0);
  }
  return durations;
}

}  // namespace tidemark
