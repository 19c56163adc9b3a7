// The terminal: the streams for output, its width and its colours.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace tidemark {

// Exit codes, as scripts know them.
inline constexpr int kExitFits = 0;
inline constexpr int kExitDoesNotFit = 1;
inline constexpr int kExitBadInput = 2;
inline constexpr int kExitInternal = 3;

struct Console {
  bool colour = false;          // stdout is a terminal, and NO_COLOR is not set
  bool error_colour = false;    // the same for stderr
  bool error_terminal = false;  // progress may be shown
  bool terminal = false;        // stdout is a terminal
  std::size_t width = 100;      // width of stdout's terminal
  std::string program;          // argv[0]
};
[[nodiscard]] Console open_console(std::string program);

// Returns a variable of the environment; empty where it is not set. Called before any thread
// starts.
[[nodiscard]] std::string environment_variable(const char* name);

// Prints results. Throws UserError when stdout cannot be written (a full disk); a closed pipe ends
// the program as it ends any other.
void print(std::string_view text);
// Prints diagnostics: "tidemark: error: ..." on stderr.
void print_error(const Console& console, std::string_view message);
void print_usage(std::string_view text);  // prints help after a mistake, on stderr
void print_warning(const Console& console, std::string_view message);
void print_note(std::string_view message);  // "tidemark: wrote ..." on stderr

// Shows "12 of 40 points, about 34 s left" on a terminal's last line, at most ten times a second;
// silent elsewhere. The time left is shown once a second has passed, as if all points took equally
// long.
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
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_;
};

// Shows "solving: 4 s of at most 10 s" on a terminal's last line while something runs that does not
// report its progress; silent elsewhere, and for what takes less than half a second.
class Waiting {
 public:
  // `limit` is 0 where there is none.
  Waiting(const Console& console, std::string what, std::chrono::nanoseconds limit);
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting();

 private:
  std::condition_variable over_;
  std::mutex mutex_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace tidemark
