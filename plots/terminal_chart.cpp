#include "plots/terminal_chart.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "plots/axis_scale.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"

namespace tidemark {
namespace terminal_chart_detail {
namespace {

constexpr std::size_t kAxisWidth = 8;  // width of the labels left of the plot, with the axis
constexpr std::size_t kLevels = 8;     // parts of one character that block elements can show
constexpr double kFarCapacityOnTerminal = 1.6;  // times the peak: a line farther up wastes space
constexpr int kPhaseColours[kPhases] = {110, 180, 139};

// The bands of a stack, bottom first: context, the roles, reserved.
constexpr std::size_t kBands = kRoles + 2;
constexpr std::size_t kCachedBand = kBands - 1;
constexpr int kAir = -1;

const RoleStyle& style_of_band(std::size_t band) {
  if (band == 0) return context_style();
  if (band == kCachedBand) return cached_style();
  return style_of(kStackOrder[band - 1]);
}

// The upper edge of each band of a column, in bytes.
using Stack = std::array<double, kBands>;

Stack stack_of(const MemorySample& sample, Bytes context) {
  Stack edges{};
  double height = static_cast<double>(context.count);
  edges[0] = height;
  for (std::size_t r = 0; r < kRoles; ++r) {
    height += static_cast<double>(sample.by_role[static_cast<std::size_t>(kStackOrder[r])].count);
    edges[r + 1] = height;
  }
  edges[kCachedBand] = std::max(height, static_cast<double>((context + sample.reserved).count));
  return edges;
}

int band_at(const Stack& edges, double height) {
  for (std::size_t band = 0; band < kBands; ++band) {
    if (height < edges[band]) return static_cast<int>(band);
  }
  return kAir;
}

// Intervals of the y axis with round numbers, each of the same number of rows.
struct Scale {
  double step = 1;
  std::size_t intervals = 4;
  std::size_t rows_per_interval = 4;
  [[nodiscard]] double height() const { return step * static_cast<double>(intervals); }
  [[nodiscard]] std::size_t rows() const { return intervals * rows_per_interval; }
};

// Returns the lowest scale of three to six intervals that holds `value`, in about `rows` rows.
Scale scale_for(double value, std::size_t rows) {
  Scale best{.step = 0};
  for (std::size_t intervals = 3; intervals <= 6; ++intervals) {
    const Scale scale{
        .step = round_step(value / static_cast<double>(intervals)),
        .intervals = intervals,
        .rows_per_interval = std::max<std::size_t>((rows + intervals / 2) / intervals, 1)};
    if (best.step == 0 || scale.height() < best.height() * (1 - 1e-9)) best = scale;
  }
  return best;
}

// Formats a number of an axis with no more digits than it needs.
std::string tick(double value) {
  std::string text = fmt::format("{:.3f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

class Chart {
 public:
  Chart(const StepProgram& program, const Scratch& scratch, const MemoryTimeline& timeline,
        const ChartOptions& options);
  [[nodiscard]] std::string draw() const;

 private:
  [[nodiscard]] std::string peak_line() const;
  [[nodiscard]] std::string row(std::size_t from_bottom) const;
  [[nodiscard]] std::string cell(std::size_t column, std::size_t from_bottom) const;
  [[nodiscard]] std::string two_colours(const std::array<int, kLevels>& levels) const;
  [[nodiscard]] std::string axis() const;
  [[nodiscard]] std::string phase_line() const;
  [[nodiscard]] std::string legend() const;

  const ChartOptions& options_;
  Duration begin_;
  Duration end_;
  std::size_t columns_;
  std::vector<MemorySample> samples_;
  std::vector<Phase> phases_;
  std::vector<Stack> stacks_;
  std::size_t peak_column_ = 0;
  double unit_ = 0;  // bytes of one number on the axis
  std::string_view unit_name_;
  Scale scale_;        // in units of `unit_`
  double height_ = 0;  // bytes at the upper edge
  bool capacity_shown_ = false;
};

Chart::Chart(const StepProgram& program, const Scratch& scratch, const MemoryTimeline& timeline,
             const ChartOptions& options)
    : options_(options),
      begin_(options.begin),
      end_(options.end > options.begin ? options.end : timeline.end),
      columns_(std::max<std::size_t>(options.width, 40) - kAxisWidth),
      samples_(thin_out(program, timeline, begin_, end_, columns_)),
      phases_(phases_of(program, scratch, begin_, end_, columns_)) {
  double top = 0;
  for (const MemorySample& sample : samples_) {
    stacks_.push_back(stack_of(sample, options.context));
    top = std::max(top, stacks_.back()[kCachedBand]);
    if (sample.live > samples_[peak_column_].live) peak_column_ = stacks_.size() - 1;
  }
  const auto capacity = static_cast<double>(options.capacity.count);
  if (options.does_not_fit) top = std::max(top, capacity);
  capacity_shown_ = capacity > 0 && capacity <= top * kFarCapacityOnTerminal;
  if (capacity_shown_) top = std::max(top, capacity);
  const bool small = top < static_cast<double>(kGiB.count);
  unit_ = static_cast<double>(small ? kMiB.count : kGiB.count);
  unit_name_ = small ? "MiB" : "GiB";
  scale_ = scale_for(std::max(top, 1.0) / unit_, options.rows);
  height_ = scale_.height() * unit_;
}

std::string Chart::peak_line() const {
  const MemorySample& peak = samples_[peak_column_];
  std::string note = fmt::format("peak {} at {}", format_bytes(peak.live),
                                 format_duration(std::max(peak.time - begin_, Duration(0))));
  if (!options_.peak_note.empty()) note += ", " + options_.peak_note;
  const std::size_t length = display_width(note);
  const std::string mark = paint("▼", kBad, options_.colour);
  const std::string before(kAxisWidth + peak_column_, ' ');
  if (peak_column_ + 2 + length <= columns_) return before + mark + ' ' + note + '\n';
  if (peak_column_ >= length + 1) return before.substr(length + 1) + note + ' ' + mark + '\n';
  std::string text;
  for (const std::string& line : wrap(note, columns_)) {
    text += std::string(kAxisWidth, ' ') + line + '\n';
  }
  return text + before + mark + '\n';
}

// Draws a character with one colour below, one above and a border between them in eighths: the
// border that leaves the fewest eighths in a wrong colour.
std::string Chart::two_colours(const std::array<int, kLevels>& levels) const {
  static constexpr std::string_view kBlocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::size_t best_border = 0;
  std::size_t best_right = 0;
  int best_lower = kAir;
  int best_upper = kAir;
  const auto most_common = [&](std::size_t from, std::size_t to, std::size_t& count) {
    int band = kAir;
    count = 0;
    for (std::size_t i = from; i < to; ++i) {
      const auto same = static_cast<std::size_t>(
          std::count(levels.begin() + static_cast<std::ptrdiff_t>(from),
                     levels.begin() + static_cast<std::ptrdiff_t>(to), levels[i]));
      if (same > count) {
        count = same;
        band = levels[i];
      }
    }
    return band;
  };
  for (std::size_t border = 0; border <= kLevels; ++border) {
    std::size_t below = 0;
    std::size_t above = 0;
    const int lower = most_common(0, border, below);
    const int upper = most_common(border, kLevels, above);
    if (below + above > best_right) {
      best_right = below + above;
      best_border = border;
      best_lower = lower;
      best_upper = upper;
    }
  }
  if (best_border == 0) {
    if (best_upper == kAir) return " ";
    best_border = kLevels;
    best_lower = best_upper;
  }
  const int lower = style_of_band(static_cast<std::size_t>(best_lower)).colour;
  if (best_border == kLevels || best_upper == kAir) {
    return fmt::format("\x1b[38;5;{}m{}\x1b[0m", lower, kBlocks[best_border]);
  }
  return fmt::format("\x1b[38;5;{};48;5;{}m{}\x1b[0m", lower,
                     style_of_band(static_cast<std::size_t>(best_upper)).colour,
                     kBlocks[best_border]);
}

std::string Chart::cell(std::size_t column, std::size_t from_bottom) const {
  const double row_height = height_ / static_cast<double>(scale_.rows());
  const double bottom = row_height * static_cast<double>(from_bottom);
  std::array<int, kLevels> levels{};
  std::array<std::size_t, kBands> count{};
  std::size_t filled = 0;
  for (std::size_t l = 0; l < kLevels; ++l) {
    const double height = bottom + row_height * (static_cast<double>(l) + 0.5) / kLevels;
    levels[l] = band_at(stacks_[column], height);
    if (levels[l] == kAir) continue;
    ++count[static_cast<std::size_t>(levels[l])];
    ++filled;
  }
  const auto capacity = static_cast<double>(options_.capacity.count);
  const bool line = capacity_shown_ && capacity > bottom && capacity <= bottom + row_height;
  if (line && filled == 0) return paint("╌", kBad, options_.colour);
  if (line && options_.does_not_fit) {
    if (!options_.colour) return "╌";
    const auto most =
        static_cast<std::size_t>(std::max_element(count.begin(), count.end()) - count.begin());
    return fmt::format("\x1b[38;5;{};48;5;{}m╌\x1b[0m", kBad, style_of_band(most).colour);
  }
  if (filled == 0) return " ";
  if (options_.colour) return two_colours(levels);
  if (filled * 2 < kLevels) return " ";
  const auto most = std::max_element(count.begin(), count.end());
  return std::string(style_of_band(static_cast<std::size_t>(most - count.begin())).letter);
}

std::string Chart::row(std::size_t from_bottom) const {
  // A value is written next to the row whose upper edge it is; zero next to the axis.
  const bool ticked = (from_bottom + 1) % scale_.rows_per_interval == 0;
  const std::size_t intervals = (from_bottom + 1) / scale_.rows_per_interval;  // whole ones
  const double value = scale_.step * static_cast<double>(intervals);
  std::string line = ticked ? fmt::format("{:>6} ┤", tick(value)) : std::string("       │");
  for (std::size_t c = 0; c < columns_; ++c)
    line += cell(c, from_bottom);
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

// Returns the line under the plot and the times under the line.
std::string Chart::axis() const {
  const double total = static_cast<double>((end_ - begin_).count());
  // Milliseconds, unless the step takes longer than a minute or less than a few microseconds.
  const bool long_step = total > 60e9;
  const bool short_step = total < 50e3;
  const double unit = long_step ? 1e9 : short_step ? 1e3 : 1e6;
  const std::string_view name = long_step ? "s" : short_step ? "us" : "ms";
  const double step = round_step(std::max(total / unit, 1e-6) / 6);  // at most six numbers
  std::string line = fmt::format("{:>6} └", fmt::format("{}", unit_name_));
  std::string labels(kAxisWidth, ' ');
  std::string ticks;
  double next = 0;
  for (std::size_t c = 0; c < columns_; ++c) {
    const double right = total / unit * static_cast<double>(c + 1) / static_cast<double>(columns_);
    if (next >= right) {
      ticks += "─";
      continue;
    }
    ticks += "┴";
    const std::string label = c == 0 ? "0" : fmt::format("{} {}", tick(next), name);
    const std::size_t shift = c == 0 ? 0 : std::min(c, label.size() / 2);
    if (kAxisWidth + c - shift >= labels.size() + (c == 0 ? 0 : 1) &&
        c - shift + label.size() <= columns_) {
      labels.resize(kAxisWidth + c - shift, ' ');
      labels += label;
    }
    next += step;
  }
  return line + ticks + '\n' + labels + '\n';
}

std::string Chart::phase_line() const {
  std::string line(kAxisWidth, ' ');
  for (std::size_t first = 0; first < columns_;) {
    std::size_t last = first;
    while (last + 1 < columns_ && phases_[last + 1] == phases_[first])
      ++last;
    const std::size_t length = last + 1 - first;
    const std::string_view name = name_of(phases_[first]);
    // The part reads ├── forward ──┤, else a shorter word, else its first letter repeated.
    std::string part;
    for (const std::string_view word :
         {name, kShortPhases[static_cast<std::size_t>(phases_[first])]}) {
      if (!part.empty() || word.size() + 4 > length) continue;
      const std::size_t dashes = length - word.size() - 4;
      part = "├";
      for (std::size_t i = 0; i < dashes / 2; ++i)
        part += "─";
      part += fmt::format(" {} ", word);
      for (std::size_t i = 0; i < dashes - dashes / 2; ++i)
        part += "─";
      part += "┤";
    }
    if (part.empty()) part = std::string(length, name.front());
    line += paint(part, kPhaseColours[static_cast<std::size_t>(phases_[first])], options_.colour);
    first = last + 1;
  }
  return line + '\n';
}

// Explains each colour or letter, with its size at the peak.
std::string Chart::legend() const {
  const MemorySample& peak = samples_[peak_column_];
  std::vector<std::string> items;
  const auto add = [&](const RoleStyle& style, Bytes bytes) {
    const std::string mark =
        options_.colour ? paint("█", style.colour, true) : std::string(style.letter);
    items.push_back(fmt::format("{} {} {}", mark, style.label, format_bytes(bytes)));
  };
  for (const Role role : kStackOrder) {
    const auto r = static_cast<std::size_t>(role);
    // A band that is too thin to see anywhere is not explained.
    const bool seen = std::any_of(samples_.begin(), samples_.end(), [&](const MemorySample& s) {
      return static_cast<double>(s.by_role[r].count) >
             height_ / static_cast<double>(scale_.rows() * kLevels);
    });
    if (seen) add(style_of(role), peak.by_role[r]);
  }
  if (options_.context.count > 0) add(context_style(), options_.context);
  if (peak.reserved > peak.live) add(cached_style(), peak.reserved - peak.live);
  std::string text = std::string(kAxisWidth, ' ') + "at the peak:";
  std::size_t used = display_width(text);
  for (const std::string& item : items) {
    const std::size_t length = display_width(item);
    if (used + 2 + length > columns_ + kAxisWidth) {
      text += '\n' + std::string(kAxisWidth - 2, ' ');
      used = kAxisWidth - 2;
    }
    text += "  " + item;
    used += 2 + length;
  }
  return text + '\n';
}

std::string Chart::draw() const {
  std::string text = peak_line();
  for (std::size_t r = scale_.rows(); r-- > 0;)
    text += row(r);
  text += axis() + phase_line() + legend();
  if (options_.capacity.count > 0) {
    const std::string capacity = format_bytes(options_.capacity);
    text += std::string(kAxisWidth, ' ');
    text += capacity_shown_ ? paint("╌╌", kBad, options_.colour) + " capacity " + capacity
                            : "capacity " + capacity + " lies above this chart";
    text += options_.does_not_fit ? "; drawn as if there were enough\n" : "\n";
  }
  return text;
}

}  // namespace
}  // namespace terminal_chart_detail

std::string draw_memory_chart(const StepProgram& program, const Scratch& scratch,
                              const MemoryTimeline& timeline, const ChartOptions& options) {
  if (timeline.points.empty()) return {};
  return terminal_chart_detail::Chart(program, scratch, timeline, options).draw();
}

}  // namespace tidemark
