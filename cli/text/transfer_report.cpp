#include "cli/text/transfer_report.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/text/wording.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "scenarios/results/result_document.hpp"
#include "sim/result/transfers.hpp"

namespace tidemark {
namespace transfer_report_detail {
namespace {

// The streams other than compute, with the names that users know.
struct Link {
  Stream stream;
  std::string_view name;
};
constexpr std::array<Link, 5> kLinks{{{Stream::kCopyOut, "device to host"},
                                      {Stream::kCopyIn, "host to device"},
                                      {Stream::kNvmeWrite, "host to NVMe"},
                                      {Stream::kNvmeRead, "NVMe to host"},
                                      {Stream::kHostWorker, "optimizer on the host"}}};

Duration of(const std::array<Duration, kStreams>& times, Stream stream) {
  return times[static_cast<std::size_t>(stream)];
}

std::string name_in(const TrainingGraph& graph, StorageId s) {
  const Storage& storage = graph.storages[s];
  const std::string layer(graph.layer_name(storage.layer));
  if (layer.empty() || storage.name.starts_with(layer)) return storage.name;
  return layer + ": " + storage.name;
}

}  // namespace
}  // namespace transfer_report_detail

std::string transfer_verdict(const PointResult& point) {
  const RunResult& run = point.run;
  const Duration copies = copy_time(run);
  const Duration updates = transfer_report_detail::of(run.busy, Stream::kHostWorker);
  if (copies <= Duration(0) && updates <= Duration(0)) return {};
  const double hidden = hidden_share(run);
  std::string text = fmt::format("offload hides {} of its copies", percent(hidden));
  if (run.exposed_transfer > Duration(0)) {
    text += fmt::format("; the rest costs {}", format_duration(run.exposed_transfer));
  }
  const Duration waits = transfer_report_detail::of(run.exposed, Stream::kHostWorker);
  if (waits > Duration(0)) {
    text += fmt::format("; waiting for the optimizer on the host costs {}", format_duration(waits));
  }
  text += fmt::format("; host RAM {}", format_bytes(run.host_taken.bytes));
  if (run.nvme.bytes.count > 0) text += fmt::format("; NVMe {}", format_bytes(run.nvme.bytes));
  return text;
}

std::string explain_transfers(const PointResult& point, const PointDetail& detail, std::size_t top,
                              bool colour, std::size_t width) {
  const std::string verdict = transfer_verdict(point);
  if (verdict.empty()) return {};
  const RunResult& run = point.run;
  const TransferReport report =
      transfers(detail.model->training, detail.compiled.program, detail.scratch, run);
  std::string text = '\n' + bold("What moved in the last step", colour) + '\n';
  text += "  " + verdict + '\n';
  Table links({{""}, {"busy", Align::kRight}, {"compute waited", Align::kRight}}, kIndent);
  for (const transfer_report_detail::Link& link : transfer_report_detail::kLinks) {
    if (transfer_report_detail::of(run.busy, link.stream) <= Duration(0)) continue;
    links.add_row({{std::string(link.name)},
                   {format_duration(transfer_report_detail::of(run.busy, link.stream))},
                   {format_duration(transfer_report_detail::of(run.exposed, link.stream))}});
  }
  text += links.text(colour, width);
  text += fmt::format("  {} out, {} in; {} were off the device when live bytes peaked\n",
                      format_bytes(report.bytes_out), format_bytes(report.bytes_in),
                      format_bytes(report.saved_at_peak));
  if (report.tensors.empty()) return text;
  Table table({{"tensor"},
               {"size", Align::kRight},
               {"window", Align::kRight},
               {"copies", Align::kRight},
               {"stall", Align::kRight},
               {"to"},
               {""}},
              kIndent);
  const std::size_t shown = std::min(top, report.tensors.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const MovedTensor& tensor = report.tensors[i];
    table.add_row({{transfer_report_detail::name_in(detail.model->training, tensor.storage)},
                   {format_bytes(tensor.bytes)},
                   {format_duration(tensor.window)},
                   {format_duration(tensor.copies)},
                   {format_duration(tensor.stall), tensor.stall > Duration(0) ? kBad : -1},
                   {std::string(name_of(tensor.farthest))},
                   {tensor.saves_at_peak ? "off the device at the peak" : ""}});
  }
  text += table.text(colour, width);
  if (shown < report.tensors.size()) {
    text += dim(fmt::format("  and {} more\n",
                            grouped(static_cast<std::int64_t>(report.tensors.size() - shown))),
                colour);
  }
  return text;
}

nlohmann::ordered_json transfers_json(const PointResult& point, const PointDetail& detail) {
  const TransferReport report =
      transfers(detail.model->training, detail.compiled.program, detail.scratch, point.run);
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const MovedTensor& tensor : report.tensors) {
    const Storage& storage = detail.model->training.storages[tensor.storage];
    tensors.push_back({{"tensor", storage.name},
                       {"layer", detail.model->training.layer_name(storage.layer)},
                       {"role", name_of(storage.role)},
                       {"bytes", tensor.bytes.count},
                       {"tier", name_of(tensor.farthest)},
                       {"window", seconds(tensor.window)},
                       {"copies", seconds(tensor.copies)},
                       {"stall", seconds(tensor.stall)},
                       {"away_at_peak", tensor.saves_at_peak}});
  }
  return {{"verdict", transfer_verdict(point)},
          {"hidden_share", report.hidden()},
          {"copies", seconds(report.copies)},
          {"exposed", seconds(report.exposed)},
          {"bytes_out", report.bytes_out.count},
          {"bytes_in", report.bytes_in.count},
          {"saved_at_peak", report.saved_at_peak.count},
          {"tensors", std::move(tensors)}};
}

}  // namespace tidemark
