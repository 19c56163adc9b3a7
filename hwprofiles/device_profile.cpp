#include "hwprofiles/device_profile.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>

#include <fmt/format.h>

namespace tidemark {
namespace device_profile_detail {
namespace {

constexpr Range kPositive = above(0);
// Winograd convolutions do less work than is counted, so shares of the peak may exceed 1.
constexpr Range kShare = between(1e-6, 4);
constexpr Range kFraction = between(0, 1);

DType wider_type(DType type) {
  return type == DType::kFloat8 ? DType::kFloat16 : DType::kFloat32;
}

std::size_t index_of(DType type) {
  return static_cast<std::size_t>(type);
}

// Matrix products are timed in these types; fp64 and fp32 exist everywhere.
constexpr std::array<DType, 7> kMatrixTypes = {DType::kFloat64, DType::kFloat32,  DType::kTf32,
                                               DType::kFloat16, DType::kBFloat16, DType::kFloat8,
                                               DType::kInt8};

std::array<MatrixRate, kDTypes> decode_peaks(const FigureReader& peaks) {
  std::array<MatrixRate, kDTypes> rates;
  for (const DType type : kMatrixTypes) {
    const bool everywhere = type == DType::kFloat64 || type == DType::kFloat32;
    FlopsPerSecond& peak = rates[index_of(type)].peak;
    peak = everywhere ? peaks.required<FlopsPerSecond>(name_of(type), kPositive)
                      : peaks.maybe<FlopsPerSecond>(name_of(type), kPositive).value_or(peak);
  }
  peaks.finish();
  return rates;
}

// A share is needed for every type that has a peak; a missing one is told where the peak stands,
// which may be another file than that of the shares.
void decode_matmul_shares(const FigureReader& shares, const FigureReader& peaks,
                          DeviceProfile& profile) {
  for (const DType type : kMatrixTypes) {
    MatrixRate& rate = profile.matrix[index_of(type)];
    const std::string name(name_of(type));
    if (rate.peak.value > 0 && shares.decoder().value().find(name) == nullptr) {
      peaks.decoder().fail_at(name,
                              fmt::format("a peak without the share that products reach of it; add "
                                          "efficiency.matmul.{}: {{value: 0.8, source: ...}}",
                                          name));
    }
    if (rate.peak.value > 0) {
      rate.matmul_share = shares.required<double>(name_of(type), kShare);
    } else if (shares.maybe<double>(name_of(type), kShare)) {
      shares.decoder().fail_at(
          name, "a share of a peak that the profile does not state; add peaks." + name);
    }
  }
  profile.two_of_four = shares.maybe<double>("two_of_four", between(1.0, 2.0)).value_or(1);
  profile.sustained_matmul = shares.maybe<double>("sustained", kFraction).value_or(1);
  profile.matmul_spread = shares.maybe<double>("spread", kFraction).value_or(0);
  shares.finish();
}

TileModel decode_tile(const FigureReader& tile) {
  const TileModel model{
      .small_tile_exponent = tile.required<double>("small_tile_exponent", between(0, 2)),
      .prologue = tile.required<double>("prologue", at_least(0)),
      .long_reduction = tile.maybe<double>("long_reduction", between(0, 0.5)).value_or(0)};
  tile.finish();
  return model;
}

// Without figures of its own a batch is timed as one product; the share is relative to that of one.
void decode_batched(const FigureReader& tile, std::string_view cores, TileModel& model,
                    double& share) {
  if (tile.decoder().value().find(cores) == nullptr) return;
  const FigureReader batched = tile.group(cores);
  share = batched.required<double>("share", kShare);
  model = decode_tile(batched);
}

ConvolutionShare decode_convolution(const FigureReader& share) {
  const ConvolutionShare shares{.tensor_cores = share.required<double>("tensor_cores", kShare),
                                .cuda_cores = share.required<double>("cuda_cores", kShare),
                                .pointwise = share.maybe<double>("pointwise", kShare).value_or(1),
                                .winograd = share.maybe<double>("winograd", kShare).value_or(1),
                                .strided = share.maybe<double>("strided", kShare).value_or(1),
                                .narrow = share.maybe<double>("narrow", kFraction).value_or(0)};
  share.finish();
  return shares;
}

GroupedShare decode_grouped(const FigureReader& convolution) {
  constexpr std::string_view kKey = "grouped_channels_last";
  if (convolution.decoder().value().find(kKey) == nullptr) return {};
  const FigureReader group = convolution.group(kKey);
  const GroupedShare grouped{.share = group.required<double>("share", kShare),
                             .exponent = group.required<double>("exponent", between(0, 2)),
                             .wide = group.maybe<double>("wide", between(0.01, 1)).value_or(1)};
  group.finish();
  return grouped;
}

std::vector<AttentionCurve> decode_attention(const FigureReader& widths) {
  std::vector<AttentionCurve> curves;
  for (const auto& [key, curve] : widths.groups()) {
    int width = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), width);
    if (error != std::errc() || end != key.data() + key.size() || width < 1) {
      widths.decoder().fail_at(key, "expected a head width in elements, like 128");
    }
    curves.push_back(
        {.head_width = width,
         .share = curve.required<double>("share", kShare),
         .half_length = curve.required<double>("half_length", at_least(0)),
         .causal_share = curve.required<double>("causal_share", kShare),
         .causal_half_length = curve.required<double>("causal_half_length", at_least(0))});
    curve.finish();
  }
  if (curves.empty()) widths.decoder().fail("expected at least one head width");
  widths.finish();
  std::sort(curves.begin(), curves.end(), [](const AttentionCurve& a, const AttentionCurve& b) {
    return a.head_width < b.head_width;
  });
  return curves;
}

void decode_bandwidth(const FigureReader& shares, DeviceProfile& profile) {
  std::array<double, kOperatorClasses>& bandwidth = profile.bandwidth;
  for (int c = 0; c < kOperatorClasses; ++c) {
    const auto op_class = static_cast<OperatorClass>(c);
    if (!is_priced_by_device(op_class)) continue;
    bandwidth[static_cast<std::size_t>(c)] = shares.required<double>(name_of(op_class), kShare);
  }
  profile.normalization_channels_last =
      shares.maybe<double>("normalization_channels_last", kShare)
          .value_or(bandwidth[static_cast<std::size_t>(OperatorClass::kNormalization)]);
  profile.softmax_long_rows =
      shares.maybe<double>("softmax_long_rows", kShare)
          .value_or(bandwidth[static_cast<std::size_t>(OperatorClass::kSoftmax)]);
  shares.finish();
}

void decode_efficiency(const FigureReader& efficiency, const FigureReader& peaks,
                       DeviceProfile& profile) {
  decode_matmul_shares(efficiency.group("matmul"), peaks, profile);
  const FigureReader tile = efficiency.group("tile");
  profile.tensor_core_tile = decode_tile(tile.group("tensor_cores"));
  profile.cuda_core_tile = decode_tile(tile.group("cuda_cores"));
  profile.batched_tensor_core_tile = profile.tensor_core_tile;
  profile.batched_cuda_core_tile = profile.cuda_core_tile;
  decode_batched(tile, "batched_tensor_cores", profile.batched_tensor_core_tile,
                 profile.batched_tensor_core_share);
  decode_batched(tile, "batched_cuda_cores", profile.batched_cuda_core_tile,
                 profile.batched_cuda_core_share);
  tile.finish();
  const FigureReader convolution = efficiency.group("convolution");
  profile.convolution_forward = decode_convolution(convolution.group("forward"));
  profile.convolution_backward_data = decode_convolution(convolution.group("backward_data"));
  profile.convolution_backward_weight = decode_convolution(convolution.group("backward_weight"));
  const Value* grouped = convolution.decoder().value().find("grouped");
  if (grouped != nullptr && grouped->find("share") != nullptr)
    convolution.decoder().fail_at("grouped", "is one factor; rename it grouped_channels_last");
  profile.grouped = convolution.maybe<double>("grouped", kShare).value_or(1);
  profile.grouped_channels_last = decode_grouped(convolution);
  profile.convolution_layout_copies =
      convolution.maybe<double>("layout_copies", between(0, 4)).value_or(0);
  convolution.finish();
  const FigureReader attention = efficiency.group("attention");
  profile.attention_forward = decode_attention(attention.group("forward"));
  profile.attention_backward = decode_attention(attention.group("backward"));
  attention.finish();
  decode_bandwidth(efficiency.group("bandwidth"), profile);
  efficiency.finish();
}

// A number below is one whose unit was forgotten.
constexpr Bytes kLeastCapacity(1024);

MemoryProfile decode_hbm(const FigureReader& hbm) {
  const MemoryProfile memory{.capacity = hbm.required<Bytes>("capacity", kPositive),
                             .bandwidth = hbm.required<BytesPerSecond>("bandwidth", kPositive)};
  if (memory.capacity < kLeastCapacity) {
    hbm.decoder().fail_at("capacity", fmt::format("{0} bytes hold no model; is {0}GiB meant?",
                                                  memory.capacity.count));
  }
  hbm.finish();
  return memory;
}

CacheProfile decode_l2(const FigureReader& l2) {
  const CacheProfile cache{.capacity = l2.required<Bytes>("capacity"),
                           .usable = l2.required<Bytes>("usable"),
                           .bandwidth = l2.required<BytesPerSecond>("bandwidth", kPositive),
                           .residency = l2.required<double>("residency", kFraction)};
  l2.finish();
  return cache;
}

VectorProfile decode_vector(const FigureReader& vector) {
  const VectorProfile rates{.fp64 = vector.required<FlopsPerSecond>("fp64", kPositive),
                            .fp32 = vector.required<FlopsPerSecond>("fp32", kPositive),
                            .share = vector.required<double>("share", kShare)};
  vector.finish();
  return rates;
}

LaunchProfile decode_launch(const FigureReader& launch) {
  const auto kernel = launch.required<Duration>("kernel");
  LaunchProfile floors{.kernel = kernel,
                       .in_graph = launch.maybe<Duration>("in_graph").value_or(kernel),
                       .matmul = launch.required<Duration>("matmul"),
                       .convolution = launch.required<Duration>("convolution")};
  floors.convolution_backward_data =
      launch.maybe<Duration>("convolution_backward_data").value_or(floors.convolution);
  floors.convolution_backward_weight =
      launch.maybe<Duration>("convolution_backward_weight").value_or(floors.convolution);
  launch.finish();
  return floors;
}

// Reads one figure for all versions of the framework, or a group with one for each.
template <class T>
ByFramework<T> decode_by_framework(const FigureReader& reader, std::string_view key) {
  const Value* given = reader.decoder().value().find(key);
  ByFramework<T> figures;
  if (given == nullptr || !given->is_mapping() || given->find("value") != nullptr) {
    figures.values.back() = reader.required<T>(key);
    return figures;
  }
  const FigureReader group = reader.group(key);
  bool any = false;
  for (std::size_t era = 0; era < kFrameworkEras; ++era) {
    figures.values[era] = group.maybe<T>(name_of(static_cast<FrameworkEra>(era)));
    any = any || figures.values[era];
  }
  group.finish();
  if (!any) {
    reader.decoder().fail_at(key,
                             "expected a figure for at least one of torch_1_9, "
                             "torch_1_13, torch_2_1 and torch_2_4");
  }
  return figures;
}

HostProfile decode_host(const FigureReader& host) {
  const auto dispatches = decode_by_framework<Duration>(host, "dispatch");
  const HostProfile profile{
      .memory = host.required<Bytes>("memory"),
      .dispatch = dispatches.at(FrameworkEra::kTorch24),
      .dispatches = dispatches,
      .launch = host.required<Duration>("launch"),
      .synchronize = host.required<Duration>("synchronize"),
      .device_malloc = host.required<Duration>("device_malloc"),
      .device_free = host.required<Duration>("device_free"),
      .pinned_allocation = host.required<BytesPerSecond>("pinned_allocation", kPositive),
      .optimizer_bandwidth = host.required<BytesPerSecond>("optimizer_bandwidth", kPositive),
      .dram_bandwidth =
          host.maybe<BytesPerSecond>("dram_bandwidth", kPositive).value_or(BytesPerSecond{}),
      .gpus = host.maybe<int>("gpus", at_least(1)).value_or(1)};
  host.finish();
  return profile;
}

NvmeProfile decode_nvme(const FigureReader& nvme) {
  const NvmeProfile profile{.capacity = nvme.required<Bytes>("capacity", kPositive),
                            .read = nvme.required<BytesPerSecond>("read", kPositive),
                            .write = nvme.required<BytesPerSecond>("write", kPositive),
                            .latency = nvme.required<Duration>("latency"),
                            .queue = nvme.required<int>("queue", at_least(1)),
                            .request = nvme.required<Bytes>("request", kPositive)};
  nvme.finish();
  return profile;
}

LinkProfile decode_link(const FigureReader& link) {
  const LinkProfile profile{.alone = link.required<BytesPerSecond>("alone", kPositive),
                            .duplex = link.required<BytesPerSecond>("duplex", kPositive),
                            .latency = link.required<Duration>("latency")};
  if (profile.duplex > profile.alone) {
    link.decoder().fail_at("duplex", "a link is not faster while the other direction is busy");
  }
  link.finish();
  return profile;
}

CollectiveProfile decode_collective(const FigureReader& collective) {
  const CollectiveProfile profile{
      .floor = collective.required<Duration>("floor"),
      .ramp = collective.required<double>("ramp", at_least(0)),
      .bandwidth =
          collective.maybe<BytesPerSecond>("bandwidth", kPositive).value_or(BytesPerSecond{}),
      .in_switch =
          collective.maybe<BytesPerSecond>("in_switch", kPositive).value_or(BytesPerSecond{}),
      .in_switch_ranks = collective.maybe<int>("in_switch_ranks", at_least(2)).value_or(0),
      .channels = collective.maybe<int>("channels", at_least(1)).value_or(0)};
  collective.finish();
  return profile;
}

NetworkProfile decode_network(const FigureReader& network) {
  const NetworkProfile profile{
      .bandwidth = network.required<BytesPerSecond>("bandwidth", kPositive),
      .latency = network.required<Duration>("latency")};
  network.finish();
  return profile;
}

LinksProfile decode_links(const FigureReader& links) {
  LinksProfile profile{.host_to_device = decode_link(links.group("h2d")),
                       .device_to_host = decode_link(links.group("d2h")),
                       .pageable_share = links.required<double>("pageable_share", kShare),
                       .hbm_tax = links.required<double>("hbm_tax", at_least(0)),
                       .nvlink = links.required<BytesPerSecond>("nvlink"),
                       .peer_to_peer = links.maybe<bool>("peer_to_peer").value_or(false),
                       .collective = {},
                       .network = {}};
  const Value& given = links.decoder().value();
  if (given.find("collective") != nullptr) {
    profile.collective = decode_collective(links.group("collective"));
  }
  if (given.find("network") != nullptr) profile.network = decode_network(links.group("network"));
  links.finish();
  return profile;
}

PowerProfile decode_power(const FigureReader& power) {
  const PowerProfile profile{.watts = power.required<double>("watts", kPositive),
                             .idle = power.maybe<double>("idle", kPositive).value_or(0)};
  if (profile.idle > profile.watts) {
    power.decoder().fail_at("idle", "a device draws no more while it is idle");
  }
  power.finish();
  return profile;
}

FrameworkProfile decode_framework(const FigureReader& framework) {
  const auto contexts = decode_by_framework<Bytes>(framework, "context");
  const FrameworkProfile profile{
      .context = contexts.at(FrameworkEra::kTorch24),
      .contexts = contexts,
      .cublas_workspace = framework.required<Bytes>("cublas_workspace"),
      .communication_buffers = framework.required<Bytes>("communication_buffers"),
      .cudnn_filter_copies = framework.required<double>("cudnn_filter_copies", at_least(0))};
  framework.finish();
  return profile;
}

}  // namespace
}  // namespace device_profile_detail

BytesPerSecond NvmeProfile::reached(BytesPerSecond rate) const {
  const double seconds = std::chrono::duration<double>(latency).count();
  if (seconds <= 0) return rate;
  const double in_flight = static_cast<double>(queue) * static_cast<double>(request.count);
  return BytesPerSecond{std::min(rate.value, in_flight / seconds)};
}

DType matrix_type(const DeviceProfile& profile, DType type) {
  while (!(profile.matrix[device_profile_detail::index_of(type)].peak.value > 0) &&
         type != DType::kFloat32) {
    type = device_profile_detail::wider_type(type);
  }
  return type;
}

DeviceProfile decode_device_profile(const Decoder& decoder) {
  DeviceProfile profile;
  const FigureReader reader(decoder, profile.figures);
  profile.name = decoder.required<std::string>("name");
  profile.description = decoder.optional<std::string>("description", "");
  // Only marks the profile: is_roofline_only() finds it among the figures.
  static_cast<void>(reader.maybe<int>("roofline_only", between(1, 1)));
  profile.multiprocessors = reader.required<int>("multiprocessors", at_least(1));
  profile.compute_capability = reader.maybe<double>("compute_capability", at_least(0)).value_or(0);
  profile.hbm = device_profile_detail::decode_hbm(reader.group("hbm"));
  profile.l2 = device_profile_detail::decode_l2(reader.group("l2"));
  const FigureReader peaks = reader.group("peaks");
  profile.matrix = device_profile_detail::decode_peaks(peaks);
  profile.vector = device_profile_detail::decode_vector(reader.group("vector"));
  device_profile_detail::decode_efficiency(reader.group("efficiency"), peaks, profile);
  profile.launch = device_profile_detail::decode_launch(reader.group("launch"));
  profile.host = device_profile_detail::decode_host(reader.group("host"));
  if (decoder.value().find("nvme") != nullptr)
    profile.nvme = device_profile_detail::decode_nvme(reader.group("nvme"));
  profile.links = device_profile_detail::decode_links(reader.group("links"));
  profile.framework = device_profile_detail::decode_framework(reader.group("framework"));
  if (decoder.value().find("power") != nullptr)
    profile.power = device_profile_detail::decode_power(reader.group("power"));
  profile.price = reader.maybe<double>("price", device_profile_detail::kPositive).value_or(0);
  reader.finish();
  return profile;
}

}  // namespace tidemark
