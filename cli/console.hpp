// Where output goes and what it may look like.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace tidemark {

// Exit codes, as scripts know them.
inline constexpr int kExitFits = 0;
inline constexpr int kExitDoesNotFit = 1;
inline constexpr int kExitBadInput = 2;
inline constexpr int kExitInternal = 3;

struct Console {
  bool colour = false;          // on stdout: a terminal, and NO_COLOR is not set
  bool error_colour = false;    // on stderr
  bool error_terminal = false;  // progress may be shown
  bool terminal = false;        // stdout is one
  std::size_t width = 100;      // of stdout's terminal
  std::string program;          // argv[0]
};
[[nodiscard]] Console open_console(std::string program);

// Results. Throws UserError when stdout cannot be written (a full disk); a closed pipe ends the
// program as it ends any other.
void print(std::string_view text);
// Diagnostics: "tidemark: error: ..." on stderr.
void print_error(const Console& console, std::string_view message);
void print_usage(std::string_view text);  // help that nobody asked for, on stderr
void print_warning(const Console& console, std::string_view message);

// "12 of 40 points" on a terminal's last line, at most ten times a second; silent elsewhere.
class Progress {
 public:
  Progress(const Console& console, std::string noun)
      : shown_(console.error_terminal), noun_(std::move(noun)) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();
  void report(std::size_t done, std::size_t total);

 private:
  bool shown_;
  bool dirty_ = false;
  std::string noun_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace tidemark
