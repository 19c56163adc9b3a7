#include "cli/console.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "graph/core/errors.hpp"
#include "plots/role_style.hpp"

namespace tidemark {
namespace {

constexpr std::size_t kNarrowest = 60;
constexpr std::size_t kWidest = 160;
constexpr auto kBetweenReports = std::chrono::milliseconds(100);

bool set_in_environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before any thread starts
  return value != nullptr && *value != '\0';
}

}  // namespace

Console open_console(std::string program) {
  Console console{.program = std::move(program)};
  const char* term = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe)
  const bool plain =
      set_in_environment("NO_COLOR") || (term != nullptr && std::string_view(term) == "dumb");
  console.terminal = isatty(STDOUT_FILENO) != 0;
  console.error_terminal = isatty(STDERR_FILENO) != 0;
  console.colour = console.terminal && !plain;
  console.error_colour = console.error_terminal && !plain;
  winsize size{};
  if (console.terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    console.width = std::clamp<std::size_t>(size.ws_col, kNarrowest, kWidest);
  }
  return console;
}

void print(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0) throw UserError("standard output cannot be written");
}

void print_error(const Console& console, std::string_view message) {
  const std::string line =
      fmt::format("tidemark: {} {}\n",
                  bold(paint("error:", kBad, console.error_colour), console.error_colour), message);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void print_usage(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void print_warning(const Console& console, std::string_view message) {
  const std::string line =
      fmt::format("tidemark: {} {}\n", paint("warning:", kNote, console.error_colour), message);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

Progress::~Progress() {
  if (dirty_) std::fputs("\r\x1b[K", stderr);
}

void Progress::report(std::size_t done, std::size_t total) {
  if (!shown_ || total < 2) return;
  const auto now = std::chrono::steady_clock::now();
  if (dirty_ && now - last_ < kBetweenReports) return;
  last_ = now;
  dirty_ = true;
  const std::string line = fmt::format("\r\x1b[K{} of {} {}", done, total, noun_);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

}  // namespace tidemark
