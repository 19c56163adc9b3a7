#include "cli/commands/option_values.hpp"

#include <array>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "graph/core/decoder.hpp"
#include "graph/core/errors.hpp"

namespace tidemark {
namespace option_values_detail {
namespace {

constexpr std::array<std::string_view, 4> kMatrixTypes{"fp32", "tf32", "fp16", "bf16"};

}  // namespace
}  // namespace option_values_detail

void refuse_option(std::string_view option, const std::string& problem) {
  throw UserError(fmt::format("--{}: {}", option, problem));
}

void refuse_value(std::string_view option, std::string_view expected, const std::string& text) {
  refuse_option(option,
                fmt::format("expected {}, found {}", expected, tidemark::quoted_excerpt(text)));
}

std::size_t place_of_name(std::string_view option, const std::string& name,
                          std::span<const std::string_view> names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (name == names[i]) return i;
  }
  const std::vector<std::string> known(names.begin(), names.end());
  std::string hint = did_you_mean(name, known);
  if (hint.empty()) hint = fmt::format("; choose from {}", fmt::join(known, ", "));
  refuse_option(option,
                fmt::format("there is no {} {}{}", option, tidemark::quoted_excerpt(name), hint));
}

std::string choice_type(std::span<const std::string_view> names) {
  return fmt::format("{}", fmt::join(names, "|"));
}

std::string matrix_type_choice() {
  return choice_type(option_values_detail::kMatrixTypes);
}

std::optional<DType> matrix_type_option(std::string_view option, const std::string& name) {
  constexpr std::array types{DType::kFloat32, DType::kTf32, DType::kFloat16, DType::kBFloat16};
  if (name.empty()) return std::nullopt;
  return types.at(place_of_name(option, name, option_values_detail::kMatrixTypes));
}

void PlotOption::attach(CLI::App& command, bool fits) {
  const char* text =
      fits ? "draw the largest value, or with y=FIGURE a figure of its step, over a swept key into "
             "DIR/plot.svg, a line for each value of another: x=hardware,by=policies"
           : "draw a figure over a swept key into DIR/plot.svg, a line for each value of another, "
             "the best over further keys: x=training.sequence,y=memory.device_used,by=hardware";
  command.add_option("--plot", texts, text)
      ->type_name(fits ? "x=KEY[,y=FIGURE][,by=KEY]" : "x=KEY,y=FIGURE[,by=KEY]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

std::vector<std::string> PlotOption::words() const {
  std::vector<std::string> words;
  for (const std::string& text : texts)
    words.insert(words.end(), {"--plot", text});
  return words;
}

}  // namespace tidemark
