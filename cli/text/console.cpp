#include "cli/text/console.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "graph/core/errors.hpp"
#include "plots/role_style.hpp"

namespace tidemark {
namespace console_detail {
namespace {

constexpr std::size_t kNarrowest = 60;
constexpr std::size_t kWidest = 160;
constexpr auto kBetweenReports = std::chrono::milliseconds(100);
constexpr auto kBeforeEstimates = std::chrono::seconds(1);
constexpr auto kBetweenTicks = std::chrono::milliseconds(500);

// Returns "34 s", "5 min 10 s", "3 h 20 min".
std::string in_words(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::max(std::ceil(seconds), 1.0));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

bool set_in_environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before any thread starts
  return value != nullptr && *value != '\0';
}

}  // namespace
}  // namespace console_detail

Console open_console(std::string program) {
  Console console{.program = std::move(program)};
  const char* term = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe)
  const bool plain = console_detail::set_in_environment("NO_COLOR") ||
                     (term != nullptr && std::string_view(term) == "dumb");
  console.terminal = isatty(STDOUT_FILENO) != 0;
  console.error_terminal = isatty(STDERR_FILENO) != 0;
  console.colour = console.terminal && !plain;
  console.error_colour = console.error_terminal && !plain;
  winsize size{};
  if (console.terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    console.width =
        std::clamp<std::size_t>(size.ws_col, console_detail::kNarrowest, console_detail::kWidest);
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

void print_note(std::string_view message) {
  const std::string line = fmt::format("tidemark: {}\n", message);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

Progress::~Progress() {
  if (dirty_) std::fputs("\r\x1b[K", stderr);
}

void Progress::report(std::size_t done, std::size_t total) {
  if (!shown_ || total < 2) return;
  const auto now = std::chrono::steady_clock::now();
  if (dirty_ && now - last_ < console_detail::kBetweenReports) return;
  last_ = now;
  dirty_ = true;
  std::string line = fmt::format("\r\x1b[K{} of {} {}", done, total, noun_);
  const std::chrono::duration<double> elapsed = now - begin_;
  if (done > 0 && done < total && elapsed >= console_detail::kBeforeEstimates) {
    line += fmt::format(", about {} left",
                        console_detail::in_words(elapsed.count() / static_cast<double>(done) *
                                                 static_cast<double>(total - done)));
  }
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

Waiting::Waiting(const Console& console, std::string what, std::chrono::nanoseconds limit) {
  if (!console.error_terminal) return;
  thread_ = std::thread([this, what = std::move(what), limit] {
    const auto begin = std::chrono::steady_clock::now();
    bool dirty = false;
    std::unique_lock lock(mutex_);
    while (!over_.wait_for(lock, console_detail::kBetweenTicks, [this] { return ended_; })) {
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
      std::string line =
          fmt::format("\r\x1b[K{}: {}", what, console_detail::in_words(elapsed.count()));
      if (limit.count() > 0) {
        line += fmt::format(" of at most {}",
                            console_detail::in_words(std::chrono::duration<double>(limit).count()));
      }
      std::fwrite(line.data(), 1, line.size(), stderr);
      std::fflush(stderr);
      dirty = true;
    }
    if (dirty) std::fputs("\r\x1b[K", stderr);
  });
}

Waiting::~Waiting() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  over_.notify_one();
  thread_.join();
}

}  // namespace tidemark
