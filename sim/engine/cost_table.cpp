#include "sim/engine/cost_table.hpp"

namespace tidemark {
namespace {

double ns_per_byte(BytesPerSecond rate) {
  return rate.value > 0 ? 1e9 / rate.value : 0;
}

CostTable::Link link_of(const LinkProfile& link) {
  return {.ns_per_byte_alone = ns_per_byte(link.alone),
          .ns_per_byte_duplex = ns_per_byte(link.duplex),
          .latency = link.latency};
}

}  // namespace

CostTable price(const TrainingGraph& graph, const CostModel& model) {
  const DeviceProfile& device = model.profile();
  CostTable table;
  table.device.reserve(graph.operators.size());
  table.dispatch.reserve(graph.operators.size());
  for (const Operator& op : graph.operators) {
    const bool free = op.work.op_class == OperatorClass::kNone;
    table.device.push_back(model.duration(op.work));
    // Nodes of a cost graph are abstract: only their cost counts.
    const bool abstract = free || op.work.op_class == OperatorClass::kFixed;
    table.dispatch.push_back(abstract ? Duration(0) : model.dispatch_duration(op.work));
  }
  table.copy_out = link_of(device.links.device_to_host);
  table.copy_in = link_of(device.links.host_to_device);
  table.copy_dispatch = device.host.launch;
  const double hbm = device.hbm.bandwidth.value;
  if (hbm > 0) {
    table.tax_copy_out = device.links.hbm_tax * device.links.device_to_host.alone.value / hbm;
    table.tax_copy_in = device.links.hbm_tax * device.links.host_to_device.alone.value / hbm;
  }
  table.synchronize = device.host.synchronize;
  table.device_malloc = device.host.device_malloc;
  table.device_free = device.host.device_free;
  return table;
}

}  // namespace tidemark
