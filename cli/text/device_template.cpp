#include "cli/text/device_template.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace tidemark {
namespace device_template_detail {
namespace {

// Figures that a data sheet states. All others are taken over until someone measures them.
constexpr auto kStated = std::to_array<std::string_view>(
    {"multiprocessors", "hbm.capacity", "hbm.bandwidth", "l2.capacity", "peaks.fp64", "peaks.fp32",
     "peaks.tf32", "peaks.fp16", "peaks.bf16", "peaks.fp8", "vector.fp64", "vector.fp32",
     "host.memory", "host.gpus", "links.nvlink"});

constexpr auto kMeanings = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"multiprocessors",
     "Streaming multiprocessors: matrix products run in waves of that many tiles."},
    {"hbm",
     "Device memory: what cudaMalloc can hand out (torch.cuda.mem_get_info), and the peak rate."},
    {"l2",
     "Cache. usable: largest working set that reads at full speed; residency: share that hits."},
    {"peaks",
     "Dense matrix products, accumulated in fp32. A type that is missing runs as a wider one."},
    {"vector", "Arithmetic outside matrix products, and the share of it that kernels reach."},
    {"efficiency", "Shares of the peaks and of the bandwidth that kernels reach: from benchmarks."},
    {"launch",
     "Shortest time from one kernel to the next, and what a product and a convolution add."},
    {"host", "Per GPU. dispatch: CPU time of one operator of eager PyTorch."},
    {"nvme", "Disks of the host, shared by its GPUs."},
    {"links",
     "Copies. duplex: rate while the other direction is busy. nvlink: each direction, or 0GB/s."},
    {"framework", "What PyTorch and its libraries take of the device."},
});

bool is_stated(const std::string& path) {
  return std::find(kStated.begin(), kStated.end(), path) != kStated.end();
}

std::vector<std::string> keys_of(const std::string& path) {
  std::vector<std::string> keys(1);
  for (const char c : path) {
    if (c == '.') {
      keys.emplace_back();
    } else {
      keys.back() += c;
    }
  }
  return keys;
}

// Returns a text as YAML quotes it.
std::string in_quotes(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

// A line of the profile; one in comments keeps its place when the mark is taken away.
std::string line_of(bool active, std::size_t depth, const std::string& text) {
  return std::string(active ? "" : "# ") + std::string(2 * depth, ' ') + text + '\n';
}

bool any_stated(const std::vector<Figure>& figures, const std::string& group) {
  return std::any_of(figures.begin(), figures.end(), [&](const Figure& figure) {
    return figure.path.starts_with(group + '.') && is_stated(figure.path);
  });
}

std::string figure_line(const Figure& figure, const std::string& key, std::size_t depth,
                        const std::string& base) {
  const bool active = is_stated(figure.path);
  const std::string source = active ? "assumed: fill in; as " + base : figure.source;
  return line_of(
      active, depth,
      fmt::format("{}: {{value: {}, source: {}}}", key, figure.value, in_quotes(source)));
}

std::string figure_lines(const DeviceProfile& base) {
  std::string text;
  std::vector<std::string> open;  // groups around the last line
  for (const Figure& figure : base.figures) {
    const std::vector<std::string> keys = keys_of(figure.path);
    std::size_t depth = 0;
    while (depth < open.size() && depth + 1 < keys.size() && open[depth] == keys[depth])
      ++depth;
    open.resize(depth);
    if (depth == 0) {
      text += '\n';
      for (const auto& [group, meaning] : kMeanings) {
        if (group == keys.front()) text += fmt::format("# {}\n", meaning);
      }
    }
    for (; depth + 1 < keys.size(); ++depth) {
      open.push_back(keys[depth]);
      text += line_of(any_stated(base.figures, fmt::format("{}", fmt::join(open, "."))), depth,
                      keys[depth] + ':');
    }
    text += figure_line(figure, keys.back(), depth, base.name);
  }
  return text;
}

}  // namespace
}  // namespace device_template_detail

std::string device_template(const DeviceTemplate& device, const DeviceProfile& base) {
  return fmt::format(
      "# A GPU for Tidemark, to fill in. Try it: tidemark run gpt2 --gpu ./{0}.yaml\n"
      "# Each figure names its source. One that is assumed, taken over or recalled says so: "
      "results\n"
      "# then name it where they hang on it; `range: 5us to 25us` beside value says how far off "
      "it\n"
      "# may be. Figures in comments are those of {2}, which hold until they are given here.\n\n"
      "# {3}\n{1}: {2}\n"
      "name: {0}\ndescription: {0}\n{4}",
      device.name, device.same_chip ? "extends" : "like", base.name,
      device.same_chip
          ? "extends: the same chip. like: another one, whose figures are assumptions."
          : "like: another chip, whose figures are assumptions. extends: the same one.",
      device_template_detail::figure_lines(base));
}

std::string profile_name_of(const std::string& device) {
  std::string name;
  for (const char c : device) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0 || c == '.') {
      name += static_cast<char>(std::tolower(letter));
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (!name.empty() && (name.back() == '-' || name.back() == '.'))
    name.pop_back();
  return name;
}

}  // namespace tidemark
