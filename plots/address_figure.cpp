#include "plots/address_figure.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "graph/core/csv.hpp"
#include "plots/address_offsets.hpp"
#include "plots/role_style.hpp"
#include "plots/trace_model.hpp"

namespace tidemark {
namespace address_figure_detail {
namespace {

constexpr std::uint32_t kSegmentInk = 0xdfe4ea;

double seconds(Duration duration) {
  return static_cast<double>(duration.count()) * 1e-9;
}

// Returns the time of a point within the step; the end of the step for those behind the last.
Duration time_in_step(const MemoryTimeline& timeline, std::size_t point,
                      const MemoryFigureOptions& options) {
  const Duration time = point < timeline.points.size() ? timeline.points[point].time : options.end;
  return std::clamp(time, options.begin, options.end) - options.begin;
}

// Finds when each allocation goes back to the allocator: `point` by point that allocates, in order.
std::vector<std::size_t> returns_of(const StepProgram& program, const MemoryTimeline& timeline) {
  std::vector<std::size_t> returns;
  IdVector<AllocationId, std::size_t> latest(program.allocations.size(), 0);
  for (std::size_t i = 0; i < timeline.points.size(); ++i) {
    const TimelinePoint& point = timeline.points[i];
    if (point.sign > 0) {
      latest[point.allocation] = returns.size();
      returns.push_back(timeline.points.size());
    } else if (latest[point.allocation] < returns.size()) {
      returns[latest[point.allocation]] = i;
    }
  }
  return returns;
}

// The whole pixels that a rectangle covers.
using Pixels = std::tuple<long, long, long, long>;

}  // namespace
}  // namespace address_figure_detail

AddressFigure address_figure(const TrainingGraph& graph, const StepProgram& program,
                             const MemoryTimeline& timeline, const AddressLayout& layout,
                             const MemoryFigure& figure) {
  AddressFigure addresses;
  const AddressOffsets offsets(layout.segments);
  const MemoryFigureOptions& options = figure.options;
  addresses.height = offsets.end();
  for (const AddressSegment& segment : layout.segments) {
    AddressSpan shown{
        .begin = address_figure_detail::time_in_step(timeline, segment.since, options),
        .end = address_figure_detail::time_in_step(timeline, segment.until, options),
        .offset = offsets.of(segment.address),
        .bytes = segment.bytes};
    if (shown.begin < shown.end) addresses.segments.push_back(shown);
  }
  const std::vector<std::size_t> returns = address_figure_detail::returns_of(program, timeline);
  if (layout.addresses.size() != returns.size()) return {};
  std::size_t allocation = 0;
  Bytes most(-1);
  for (std::size_t i = 0; i < timeline.points.size(); ++i) {
    const TimelinePoint& point = timeline.points[i];
    if (point.time >= options.begin && point.live > most) {
      most = point.live;
      addresses.reserved_at_peak = point.reserved;
      addresses.free_at_peak = point.reserved - point.active;
    }
    if (point.sign <= 0) continue;
    const std::size_t index = allocation++;
    const Bytes offset = offsets.of(layout.addresses[index]);
    AddressSpan span{.tensor = allocation_name(graph, program, point.allocation),
                     .role = program.allocations[point.allocation].role,
                     .begin = address_figure_detail::time_in_step(timeline, i, options),
                     .end = address_figure_detail::time_in_step(timeline, returns[index], options),
                     .offset = offset,
                     .bytes = program.allocations[point.allocation].bytes};
    if (offset.count >= 0 && span.begin < span.end) addresses.allocations.push_back(span);
  }
  return addresses;
}

SvgChart address_chart(const AddressFigure& addresses, const MemoryFigure& figure) {
  const MemoryFigureOptions& options = figure.options;
  SvgChart chart{
      .title = options.title, .subtitle = options.subtitle, .reproduce = options.reproduce};
  chart.plot_width = static_cast<double>(options.columns);
  chart.x = {.title = "time in the step",
             .unit = AxisUnit::kSeconds,
             .end = address_figure_detail::seconds(options.end - options.begin)};
  chart.y = {.title = "address in the allocator's memory",
             .unit = AxisUnit::kBytes,
             .end = std::max(static_cast<double>(addresses.height.count), 1.0)};
  chart.bands = phase_bands(figure);
  std::set<address_figure_detail::Pixels> drawn;
  const auto add = [&](std::size_t area, const AddressSpan& span) {
    const double low = static_cast<double>(span.offset.count);
    const SvgRectangle shown{.area = area,
                             .begin = address_figure_detail::seconds(span.begin),
                             .end = address_figure_detail::seconds(span.end),
                             .low = low,
                             .high = low + static_cast<double>(span.bytes.count)};
    const auto across = [&](double x) {
      return std::lround(std::floor(x / chart.x.end * chart.plot_width));
    };
    const auto up = [&](double y) {
      return std::lround(std::floor(y / chart.y.end * chart.plot_height));
    };
    const bool fresh =
        drawn.emplace(across(shown.begin), across(shown.end), up(shown.low), up(shown.high)).second;
    if (fresh) chart.rectangles.push_back(shown);
  };
  chart.areas.push_back(
      {.label = "segments; free where nothing lies", .rgb = address_figure_detail::kSegmentInk});
  for (const AddressSpan& segment : addresses.segments)
    add(0, segment);
  drawn.clear();
  std::array<std::size_t, kRoles> area_of{};
  for (const Role role : kStackOrder) {
    const bool used = std::any_of(addresses.allocations.begin(), addresses.allocations.end(),
                                  [&](const AddressSpan& span) { return span.role == role; });
    if (!used) continue;
    const AreaInk ink = ink_of(role);
    area_of[static_cast<std::size_t>(role)] = chart.areas.size();
    chart.areas.push_back(
        {.label = std::string(style_of(role).label), .rgb = ink.rgb, .hatch = ink.hatch});
  }
  for (const AddressSpan& span : addresses.allocations)
    add(area_of[static_cast<std::size_t>(span.role)], span);
  chart.notes.push_back(fmt::format("at the peak {} of {} free",
                                    format_bytes(addresses.free_at_peak),
                                    format_bytes(addresses.reserved_at_peak)));
  if (options.does_not_fit) chart.notes.emplace_back("does not fit: as if there were enough");
  return chart;
}

void write_address_figure_csv(std::ostream& out, const AddressFigure& addresses) {
  out << "tensor,role,begin_ns,end_ns,offset_bytes,size_bytes\n";
  const auto row = [&](const AddressSpan& span, std::string_view role) {
    out << fmt::format("{},{},{},{},{},{}\n", csv_field(span.tensor), role, span.begin.count(),
                       span.end.count(), span.offset.count, span.bytes.count);
  };
  for (const AddressSpan& segment : addresses.segments)
    row(segment, "segment");
  for (const AddressSpan& span : addresses.allocations)
    row(span, name_of(span.role));
}

}  // namespace tidemark
