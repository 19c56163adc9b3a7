// Writes a calibration as a profile that extends another one.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "hwprofiles/calibrate/calibrate.hpp"

namespace tidemark {
namespace calibrated_profile_detail {
namespace {

struct Line {
  std::vector<std::string> groups;  // keys above the figure
  std::string key;
  std::string text;
};

std::string quoted_text(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts(1);
  for (const char c : path) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::string file_names(const std::vector<std::string>& files) {
  std::vector<std::string> names;
  names.reserve(files.size());
  for (const std::string& file : files)
    names.push_back(file.substr(file.rfind('/') + 1));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace
}  // namespace calibrated_profile_detail

std::string calibrated_profile(const Calibration& calibration, const std::string& base) {
  using calibrated_profile_detail::Line;
  using calibrated_profile_detail::quoted_text;
  const std::string files = calibrated_profile_detail::file_names(calibration.files);
  std::vector<Line> lines;
  for (const CalibratedClass& c : calibration.classes) {
    if (c.followed == 0) continue;
    const std::string held = c.after.n == 0 ? std::string("none held out")
                                            : fmt::format("held-out median {:.1f} %, mean {:.1f} %",
                                                          c.after.median * 100, c.after.mape * 100);
    for (const FittedFigure& figure : c.figures) {
      std::vector<std::string> parts = calibrated_profile_detail::parts_of(figure.path);
      Line line{.groups = {parts.begin(), parts.end() - 1}, .key = parts.back(), .text = {}};
      line.text = fmt::format(
          "{{value: {}, source: {}, note: {}}}", figure.after,
          quoted_text(fmt::format("fit of {} rows of {}, {}", c.rows, files, held)),
          quoted_text(fmt::format("95 % interval {} to {}; {} before{}", figure.low, figure.high,
                                  figure.before, figure.at_bound ? "; stopped at its bound" : "")));
      lines.push_back(std::move(line));
    }
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const Line& a, const Line& b) { return a.groups < b.groups; });
  std::string text = fmt::format(
      "# Written by tidemark calibrate: figures fitted to measured operators, laid over {0}.\n"
      "extends: {1}\n",
      base, quoted_text(base));
  std::vector<std::string> open;
  for (const Line& line : lines) {
    std::size_t common = 0;
    while (common < open.size() && common < line.groups.size() &&
           open[common] == line.groups[common])
      ++common;
    open.resize(common);
    for (; common < line.groups.size(); ++common) {
      text += fmt::format("{:{}}{}:\n", "", 2 * common, line.groups[common]);
      open.push_back(line.groups[common]);
    }
    text += fmt::format("{:{}}{}: {}\n", "", 2 * open.size(), line.key, line.text);
  }
  return text;
}

}  // namespace tidemark
