// Parses values of options that CLI11 only passes on, and refuses them in one wording.
#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "graph/ir/dtype.hpp"

namespace CLI {
class App;
}

namespace tidemark {

// Throws UserError: "--OPTION: PROBLEM".
[[noreturn]] void refuse_option(std::string_view option, const std::string& problem);
// Throws the same with the problem "expected EXPECTED, found 'TEXT'".
[[noreturn]] void refuse_value(std::string_view option, std::string_view expected,
                               const std::string& text);

// Returns the index of `name` in `names`. Throws UserError that names the nearest of them, or all.
[[nodiscard]] std::size_t place_of_name(std::string_view option, const std::string& name,
                                        std::span<const std::string_view> names);

// Returns the words that an option may be as the name of its type, "eager|ignore|banish", which
// help shows and shells complete.
[[nodiscard]] std::string choice_type(std::span<const std::string_view> names);

// The name of the type of an option for matrix_type_option().
[[nodiscard]] std::string matrix_type_choice();
// Returns the type of matrix products that an option names, fp32, tf32, fp16 or bf16; nothing where
// it is not given.
[[nodiscard]] std::optional<DType> matrix_type_option(std::string_view option,
                                                      const std::string& name);

// Returns parse(text). Its std::invalid_argument becomes a UserError that names the option.
template <class Parse>
[[nodiscard]] auto parse_option(std::string_view option, const std::string& text, Parse&& parse) {
  try {
    return parse(text);
  } catch (const std::invalid_argument& error) {
    refuse_option(option, error.what());
  }
}

// Reads all of `text` as a number that `accepts` takes. Throws UserError with what was expected.
template <class T, class Accepts>
[[nodiscard]] T number_option(std::string_view option, const std::string& text,
                              std::string_view expected, Accepts&& accepts) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end && accepts(value)) return value;
  refuse_value(option, expected, text);
}

// --plot: pictures of a figure over a swept key.
struct PlotOption {
  std::vector<std::string> texts;  // values as they are given, see parse_plot()

  // `fits`: the command maximizes a key, which is drawn where a text has no y.
  void attach(CLI::App& command, bool fits = false);
  // Returns them as words of the command line.
  [[nodiscard]] std::vector<std::string> words() const;
};

}  // namespace tidemark
