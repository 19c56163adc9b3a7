#include "cli/text/measured_report.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tidemark {
namespace measured_report_detail {
namespace {

constexpr std::size_t kShown = 5;
constexpr std::size_t kListed = 100;

}  // namespace
}  // namespace measured_report_detail

std::string left_out(std::span<const RefusedLine> refused,
                     const std::map<std::string, std::size_t>& other) {
  std::string text;
  if (!other.empty()) text += "\nrows that are not used:\n";
  for (const auto& [reason, count] : other)
    text += fmt::format("  {:>6}  {}\n", count, reason);
  if (!refused.empty()) text += fmt::format("\n{} rows are wrong and left out:\n", refused.size());
  for (std::size_t i = 0; i < std::min(refused.size(), measured_report_detail::kShown); ++i)
    text += fmt::format("  {}:{}: {}\n", refused[i].file, refused[i].line, refused[i].problem);
  if (refused.size() > measured_report_detail::kShown) text += "  ...\n";
  return text;
}

nlohmann::ordered_json refused_json(std::span<const RefusedLine> refused) {
  nlohmann::ordered_json first = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < std::min(refused.size(), measured_report_detail::kListed); ++i) {
    first.push_back(
        {{"file", refused[i].file}, {"line", refused[i].line}, {"problem", refused[i].problem}});
  }
  return {{"count", refused.size()}, {"first", std::move(first)}};
}

}  // namespace tidemark
