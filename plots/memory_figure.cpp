#include "plots/memory_figure.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "graph/core/csv.hpp"
#include "graph/core/units.hpp"
#include "plots/role_style.hpp"

namespace tidemark {
namespace memory_figure_detail {
namespace {

constexpr double kFarCapacity = 2.5;   // times the peak: a line farther up wastes space
constexpr std::size_t kTellApart = 4;  // number of lines; of more, each has a letter at its peak
constexpr double kHeadroom = 1.12;     // factor over the highest value, for labels
constexpr double kThinLine = 0.7;      // pixels
constexpr std::uint32_t kCapacityInk = 0xb3261e;
constexpr std::uint32_t kReservedInk = 0x222222;

double seconds(Duration duration) {
  return static_cast<double>(duration.count()) * 1e-9;
}

Duration end_of(const MemoryFigure& figure) {
  return figure.options.end - figure.options.begin;
}

// Returns the bytes that the device holds in a column, never less than what is live.
Bytes device_bytes(const MemoryFigure& figure, const MemorySample& sample) {
  return figure.options.context + std::max(sample.reserved, sample.live);
}

Bytes most_on_device(const MemoryFigure& figure) {
  Bytes most(1);
  for (const MemorySample& sample : figure.samples)
    most = std::max(most, device_bytes(figure, sample));
  return most;
}

// Sets the y axis, with the capacity on it or in the notes.
void scale_memory(SvgChart& chart, Bytes most, Bytes capacity, bool does_not_fit) {
  chart.y = {.title = "device memory", .unit = AxisUnit::kBytes};
  const double highest = static_cast<double>(most.count);
  const double limit = static_cast<double>(capacity.count);
  const bool near = limit > 0 && limit <= kFarCapacity * highest;
  chart.y.end = kHeadroom * (near ? std::max(highest, limit) : highest);
  if (near) {
    chart.guides.push_back({.y = limit,
                            .label = fmt::format("capacity {}", format_bytes(capacity)),
                            .rgb = kCapacityInk});
  } else if (limit > 0) {
    chart.notes.push_back(fmt::format("capacity {} lies above", format_bytes(capacity)));
  }
  if (does_not_fit) chart.notes.emplace_back("does not fit: as if there were enough");
}

// Draws the bytes in use over time, or with `reserved` those that the device holds.
SvgLine step_line(const MemoryFigure& figure, bool reserved) {
  SvgLine line{.steps = true};
  for (std::size_t c = 0; c < figure.samples.size(); ++c) {
    const MemorySample& sample = figure.samples[c];
    const Bytes bytes =
        reserved ? device_bytes(figure, sample) : figure.options.context + sample.live;
    line.points.push_back({seconds(figure.column_begin(c)), static_cast<double>(bytes.count)});
  }
  if (!line.points.empty()) {
    line.points.push_back({seconds(end_of(figure)), line.points.back().y});
  }
  return line;
}

}  // namespace
}  // namespace memory_figure_detail

Duration MemoryFigure::column_begin(std::size_t column) const {
  return Duration((options.end - options.begin).count() * static_cast<std::int64_t>(column) /
                  static_cast<std::int64_t>(std::max<std::size_t>(samples.size(), 1)));
}

MemoryFigure memory_figure(const StepProgram& program, const Scratch& scratch,
                           const MemoryTimeline& timeline, MemoryFigureOptions options) {
  if (options.end <= options.begin) options.end = std::max(timeline.end, options.begin);
  options.end = std::max(options.end, options.begin + Duration(1));
  MemoryFigure figure{.options = std::move(options)};
  const MemoryFigureOptions& o = figure.options;
  figure.samples = thin_out(program, timeline, o.begin, o.end, o.columns);
  figure.phases = phases_of(program, scratch, o.begin, o.end, o.columns);
  return figure;
}

std::vector<SvgBand> phase_bands(const MemoryFigure& figure) {
  std::vector<SvgBand> bands;
  const std::vector<Phase>& phases = figure.phases;
  for (std::size_t first = 0; first < phases.size();) {
    std::size_t last = first;
    while (last < phases.size() && phases[last] == phases[first])
      ++last;
    bands.push_back(
        {.begin = memory_figure_detail::seconds(figure.column_begin(first)),
         .end = memory_figure_detail::seconds(figure.column_begin(last)),
         .label = std::string(name_of(phases[first])),
         .short_label = std::string(kShortPhases[static_cast<std::size_t>(phases[first])])});
    first = last;
  }
  return bands;
}

SvgChart memory_chart(const MemoryFigure& figure) {
  const MemoryFigureOptions& options = figure.options;
  SvgChart chart{
      .title = options.title, .subtitle = options.subtitle, .reproduce = options.reproduce};
  chart.plot_width = static_cast<double>(options.columns);
  chart.x = {.title = "time in the step",
             .unit = AxisUnit::kSeconds,
             .end = memory_figure_detail::seconds(memory_figure_detail::end_of(figure))};
  memory_figure_detail::scale_memory(chart, memory_figure_detail::most_on_device(figure),
                                     options.capacity, options.does_not_fit);
  chart.bands = phase_bands(figure);
  const std::vector<MemorySample>& samples = figure.samples;
  if (samples.empty()) return chart;
  for (std::size_t c = 0; c <= samples.size(); ++c)
    chart.column_edges.push_back(memory_figure_detail::seconds(figure.column_begin(c)));

  const auto peak = std::max_element(
      samples.begin(), samples.end(),
      [](const MemorySample& a, const MemorySample& b) { return a.live < b.live; });
  const auto add = [&](std::string_view label, Bytes at_peak, const AreaInk& ink,
                       std::vector<double> heights) {
    if (std::all_of(heights.begin(), heights.end(), [](double h) { return h == 0; })) return;
    chart.areas.push_back({.label = fmt::format("{} {}", label, format_bytes(at_peak)),
                           .rgb = ink.rgb,
                           .hatch = ink.hatch,
                           .heights = std::move(heights)});
  };
  const double context = static_cast<double>(options.context.count);
  add(context_style().label, options.context, kContextInk,
      std::vector<double>(samples.size(), context));
  for (const Role role : kStackOrder) {
    const auto r = static_cast<std::size_t>(role);
    std::vector<double> heights;
    heights.reserve(samples.size());
    for (const MemorySample& sample : samples)
      heights.push_back(static_cast<double>(sample.by_role[r].count));
    add(style_of(role).label, peak->by_role[r], ink_of(role), std::move(heights));
  }
  SvgLine reserved = memory_figure_detail::step_line(figure, true);
  reserved.label =
      fmt::format("reserved {}", format_bytes(memory_figure_detail::device_bytes(figure, *peak)));
  reserved.rgb = memory_figure_detail::kReservedInk;
  reserved.dash = Dash::kShort;
  chart.lines.push_back(std::move(reserved));
  chart.notes.insert(chart.notes.begin(), "sizes at the peak of what is live");

  const Bytes on_device = options.context + peak->live;
  const auto column = static_cast<std::size_t>(peak - samples.begin());
  const double at =
      memory_figure_detail::seconds(figure.column_begin(column) + figure.column_begin(column + 1)) /
      2;
  const std::string size =
      fmt::format("peak {} live at {}", format_bytes(peak->live),
                  format_duration(std::max(peak->time - options.begin, Duration(0))));
  chart.marks.push_back(
      {.at = {at, static_cast<double>(on_device.count)},
       .label = options.peak_note.empty() ? size : fmt::format("{}: {}", size, options.peak_note),
       .short_label = size,
       .shape = MarkShape::kTriangle,
       .rgb = memory_figure_detail::kReservedInk});
  return chart;
}

void write_memory_figure_csv(std::ostream& out, const MemoryFigure& figure) {
  out << "begin_ns,time_ns,phase,live_bytes,reserved_bytes,device_bytes";
  for (int r = 0; r < kRoles; ++r)
    out << ',' << name_of(static_cast<Role>(r)) << "_bytes";
  out << '\n';
  for (std::size_t c = 0; c < figure.samples.size(); ++c) {
    const MemorySample& sample = figure.samples[c];
    const Duration time = std::max(sample.time - figure.options.begin, Duration(0));
    out << figure.column_begin(c).count() << ',' << time.count() << ',' << name_of(figure.phases[c])
        << ',' << sample.live.count << ',' << sample.reserved.count << ','
        << memory_figure_detail::device_bytes(figure, sample).count;
    for (const Bytes bytes : sample.by_role)
      out << ',' << bytes.count;
    out << '\n';
  }
}

std::string common_setting(const std::vector<NamedFigure>& runs) {
  constexpr std::string_view kBetween = "; ";
  const auto parts_of = [&](const std::string& text) {
    std::vector<std::string> parts;
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find(kBetween, at), text.size());
      parts.push_back(text.substr(at, end - at));
      at = end + kBetween.size();
    }
    return parts;
  };
  std::vector<std::string> common;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::vector<std::string> parts = parts_of(runs[i].figure.options.subtitle);
    if (i == 0) common = parts;
    std::erase_if(common, [&](const std::string& part) {
      return std::find(parts.begin(), parts.end(), part) == parts.end();
    });
  }
  return fmt::format("{}", fmt::join(common, kBetween));
}

bool reserved_decides(const std::vector<NamedFigure>& runs) {
  return std::any_of(runs.begin(), runs.end(), [](const NamedFigure& run) {
    const MemoryFigure& figure = run.figure;
    Bytes in_use;
    for (const MemorySample& sample : figure.samples)
      in_use = std::max(in_use, figure.options.context + sample.live);
    const Bytes capacity = figure.options.capacity;
    return capacity.count > 0 && in_use <= capacity &&
           memory_figure_detail::most_on_device(figure) > capacity;
  });
}

SvgChart overlaid_memory_chart(const std::string& title, const std::vector<NamedFigure>& runs) {
  SvgChart chart{.title = title, .subtitle = common_setting(runs)};
  const bool with_reserved = reserved_decides(runs);
  chart.x = {.title = "time in the step", .unit = AxisUnit::kSeconds, .end = 1e-9};
  Bytes most(1);
  std::vector<Bytes> capacities;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const MemoryFigure& figure = runs[i].figure;
    chart.plot_width = static_cast<double>(figure.options.columns);
    chart.x.end =
        std::max(chart.x.end, memory_figure_detail::seconds(memory_figure_detail::end_of(figure)));
    for (const MemorySample& sample : figure.samples)
      most = std::max(most, figure.options.context + sample.live);
    const Bytes reserved = memory_figure_detail::most_on_device(figure);
    if (with_reserved) most = std::max(most, reserved);
    capacities.push_back(figure.options.capacity);
    const LineInk ink = line_ink(i);
    SvgLine line = memory_figure_detail::step_line(figure, false);
    const auto peak = std::max_element(line.points.begin(), line.points.end(),
                                       [](SvgPoint a, SvgPoint b) { return a.y < b.y; });
    line.label = fmt::format(
        "{}: {}{}{}", runs[i].name,
        format_bytes(Bytes(static_cast<std::int64_t>(peak == line.points.end() ? 0 : peak->y))),
        with_reserved ? fmt::format(", reserved {}", format_bytes(reserved)) : "",
        figure.options.does_not_fit ? ", does not fit" : "");
    line.rgb = ink.rgb;
    line.dash = ink.dash;
    if (runs.size() > memory_figure_detail::kTellApart && peak != line.points.end()) {
      const std::string letter(1, static_cast<char>('A' + i % 26));
      chart.marks.push_back({.at = *peak, .label = letter, .shape = MarkShape::kNone});
      line.label = letter + "  " + line.label;
    }
    chart.lines.push_back(std::move(line));
    if (!with_reserved) continue;
    SvgLine held = memory_figure_detail::step_line(figure, true);
    held.rgb = ink.rgb;
    held.dash = ink.dash;
    held.width = memory_figure_detail::kThinLine;
    chart.lines.push_back(std::move(held));
  }
  if (with_reserved) chart.notes.emplace_back("thin lines: reserved by the allocator");
  std::sort(capacities.begin(), capacities.end());
  capacities.erase(std::unique(capacities.begin(), capacities.end()), capacities.end());
  const bool one_device = capacities.size() == 1;
  memory_figure_detail::scale_memory(chart, most, one_device ? capacities.front() : Bytes(0),
                                     false);
  chart.y.title = with_reserved ? "device memory in use and reserved" : "device memory in use";
  return chart;
}

void write_overlaid_memory_csv(std::ostream& out, const std::vector<NamedFigure>& runs) {
  out << "run,begin_ns,time_ns,live_bytes,in_use_bytes,device_bytes\n";
  for (const auto& [name, figure] : runs) {
    for (std::size_t c = 0; c < figure.samples.size(); ++c) {
      const MemorySample& sample = figure.samples[c];
      const Duration time = std::max(sample.time - figure.options.begin, Duration(0));
      out << csv_field(name) << ',' << figure.column_begin(c).count() << ',' << time.count() << ','
          << sample.live.count << ',' << (figure.options.context + sample.live).count << ','
          << memory_figure_detail::device_bytes(figure, sample).count << '\n';
    }
  }
}

}  // namespace tidemark
