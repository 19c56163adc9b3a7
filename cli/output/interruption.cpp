#include "cli/output/interruption.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>

#include <unistd.h>

namespace tidemark {
namespace interruption_detail {
namespace {

// A note that a signal handler may read at any moment: one of two is complete at all times.
struct Notes {
  std::array<std::array<char, 1000>, 2> text{};
  std::array<std::size_t, 2> size{};
  std::atomic<std::size_t> complete{0};
};

// Signal handlers reach nothing but objects of static storage.
Notes& notes() {
  static Notes instance;
  return instance;
}

extern "C" void write_note_and_exit(int signal) {
  constexpr int kShellBase = 128;
  const Notes& all = notes();
  const std::size_t at = all.complete.load();
  // A write fails where the terminal has been closed; the process ends all the same.
  static_cast<void>(!write(STDERR_FILENO, all.text[at].data(), all.size[at]));
  _exit(kShellBase + signal);
}

}  // namespace
}  // namespace interruption_detail

Interruption::Interruption() {
  note("");  // before a handler can ask for it
  interrupt_ = std::signal(SIGINT, interruption_detail::write_note_and_exit);
  terminate_ = std::signal(SIGTERM, interruption_detail::write_note_and_exit);
  if (interrupt_ == SIG_IGN) std::signal(SIGINT, SIG_IGN);
  if (terminate_ == SIG_IGN) std::signal(SIGTERM, SIG_IGN);
}

Interruption::~Interruption() {
  std::signal(SIGINT, interrupt_);
  std::signal(SIGTERM, terminate_);
}

void Interruption::note(std::string_view text) {
  interruption_detail::Notes& all = interruption_detail::notes();
  const std::size_t next = 1 - all.complete.load();
  all.size[next] = text.copy(all.text[next].data(), all.text[next].size());
  all.complete.store(next);
}

}  // namespace tidemark
