#include "policies/data/loader.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace tidemark {
namespace loader_detail {
namespace {

constexpr int kMostWorkers = 4096;
constexpr int kMostBatches = 1024;

}  // namespace
}  // namespace loader_detail

LoaderSpec decode_loader(const Decoder& loader) {
  LoaderSpec spec;
  spec.workers = loader.optional<int>("workers", 0, between(0, loader_detail::kMostWorkers));
  if (spec.workers == 0 && loader.has("prefetch_factor")) {
    loader.fail_at("prefetch_factor",
                   "without workers nothing is loaded ahead; PyTorch refuses it, too: add "
                   "workers: 4, or leave it out");
  }
  spec.prefetch_factor =
      loader.optional<int>("prefetch_factor", 2, between(1, loader_detail::kMostBatches));
  spec.pin_memory = loader.optional<bool>("pin_memory", false);
  spec.device_prefetch =
      loader.optional<int>("device_prefetch", 0, between(0, loader_detail::kMostBatches));
  spec.sample = loader.maybe<Bytes>("sample", at_least(1));
  spec.read = loader.optional<BytesPerSecond>("read", {});
  spec.decode = loader.optional<Duration>("decode", {}, at_least(0));
  spec.worker_memory = loader.optional<Bytes>("worker_memory", {}, at_least(0));
  loader.finish();
  return spec;
}

LoaderFigures loader_figures(const LoaderSpec& spec, Bytes batch, std::int64_t samples,
                             const DeviceProfile& device, int ranks_per_host) {
  LoaderFigures figures{.batch = batch,
                        .outstanding = std::int64_t{spec.prefetch_factor} * spec.workers};
  figures.shared_memory = figures.outstanding * batch;
  if (spec.pin_memory) figures.page_locked = (figures.outstanding + 1) * batch;
  figures.workers = std::int64_t{spec.workers} * spec.worker_memory;
  figures.device_inputs = (1 + std::int64_t{spec.device_prefetch}) * batch;

  const double count = static_cast<double>(samples);
  const double decoding = count * static_cast<double>(spec.decode.count()) /
                          static_cast<double>(std::max(spec.workers, 1));
  // All ranks of a host read from one storage.
  const double bytes =
      static_cast<double>(spec.sample ? (samples * *spec.sample).count : batch.count);
  const double reading = spec.read.value > 0 ? 1e9 * bytes * ranks_per_host / spec.read.value : 0;
  // Workers decode one batch while another is read; a loop without workers does both in turn.
  const double interval = spec.workers > 0 ? std::max(decoding, reading) : decoding + reading;
  const double most = static_cast<double>(kLargestQuantity) / loader_detail::kMostWorkers;
  figures.interval = Duration(static_cast<std::int64_t>(std::min(interval, most)));

  const LinkProfile& link = device.links.host_to_device;
  const double share = spec.pin_memory ? 1 : device.links.pageable_share;
  const double rate = link.alone.value * share;
  if (rate > 0 && batch.count > 0) {
    figures.copy =
        link.latency +
        Duration(static_cast<std::int64_t>(1e9 * static_cast<double>(batch.count) / rate));
  }
  return figures;
}

Duration loader_stall(const LoaderSpec& spec, const LoaderFigures& figures, std::int64_t batches,
                      Duration step, Duration link_busy) {
  const Duration copies = figures.copy * batches;
  // Only copies of page-locked memory run beside kernels.
  const bool ahead = spec.device_prefetch > 0 && spec.pin_memory;
  const Duration exposed =
      ahead ? std::max(Duration(0), copies + link_busy - std::max(step, link_busy)) : copies;
  const Duration loading = figures.interval * batches;
  if (spec.workers == 0) return exposed + loading;
  return exposed + std::max(Duration(0), loading - (step + exposed));
}

Bytes batch_bytes(const TrainingGraph& graph) {
  Bytes sum;
  for (const Storage& storage : graph.storages) {
    if (storage.role == Role::kInput && (storage.initial || storage.persistent))
      sum += storage.bytes;
  }
  return sum;
}

void Loader::apply(TrainingGraph& graph, const RewriteContext& /*context*/) const {
  const Bytes batch = batch_bytes(graph);
  if (batch.count == 0) return;
  for (int i = 0; i < spec_.device_prefetch; ++i) {
    graph.storages.push_back({.bytes = batch,
                              .role = Role::kLoader,
                              .initial = true,
                              .persistent = true,
                              .name = fmt::format("prefetched_batch_{}", i)});
  }
}

}  // namespace tidemark
