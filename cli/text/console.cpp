#include "cli/text/console.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "graph/core/errors.hpp"
#include "graph/core/printable.hpp"
#include "plots/role_style.hpp"

namespace tidemark {
namespace console_detail {
namespace {

// Returns the length of the escape sequence at the front of a text if it is one of those that set
// the colours and the weight of Tidemark's own words (role_style.hpp, terminal_chart.cpp); else 0.
std::size_t style_length(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const std::size_t end = std::min(text.find_first_not_of("0123456789;", 2), text.size());
  if (end == text.size() || text[end] != 'm') return 0;
  const std::string_view codes = text.substr(2, end - 2);
  const bool style = codes == "0" || codes == "1" || codes == "2" || codes.starts_with("38;5;");
  return style ? end + 1 : 0;
}

// Writes a text: lines, and styles if it goes to a terminal. Every other control character comes
// from a name of the user, and is escaped. Returns whether all of it was written.
bool write_text(std::FILE* stream, std::string_view text) {
  const bool terminal = isatty(fileno(stream)) != 0;
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    std::size_t length = control_length(rest);
    const std::size_t style = terminal ? style_length(rest) : 0;
    if (length > 0 && style == 0 && rest[0] != '\n' && rest[0] != '\t') {
      append_escaped(out, rest.substr(0, length));
    } else {
      length = std::max<std::size_t>(style, 1);
      out += rest.substr(0, length);
    }
    at += length;
  }
  return std::fwrite(out.data(), 1, out.size(), stream) == out.size();
}

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

}  // namespace
}  // namespace console_detail

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before any thread starts
  return value == nullptr ? "" : value;
}

Console open_console(std::string program) {
  Console console{.program = std::move(program)};
  const bool plain =
      !environment_variable("NO_COLOR").empty() || environment_variable("TERM") == "dumb";
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
  const bool written = console_detail::write_text(stdout, text);
  if (!written || std::fflush(stdout) != 0) throw UserError("standard output cannot be written");
}

void print_error(const Console& console, std::string_view message) {
  const std::string line =
      fmt::format("tidemark: {} {}\n",
                  bold(paint("error:", kBad, console.error_colour), console.error_colour), message);
  console_detail::write_text(stderr, line);
}

void print_usage(std::string_view text) {
  console_detail::write_text(stderr, text);
}

void print_warning(const Console& console, std::string_view message) {
  const std::string line =
      fmt::format("tidemark: {} {}\n", paint("warning:", kNote, console.error_colour), message);
  console_detail::write_text(stderr, line);
}

void print_note(std::string_view message) {
  const std::string line = fmt::format("tidemark: {}\n", message);
  console_detail::write_text(stderr, line);
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
  auto tick = [this, what = std::move(what), limit] {
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
  };
  try {
    thread_ = std::thread(std::move(tick));
  } catch (const std::system_error&) {
    // Without a thread the work goes on unseen.
  }
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
