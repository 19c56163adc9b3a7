// Ctrl-C while a command works: says how far it has come and how to go on.
#pragma once

#include <cstddef>
#include <string_view>

namespace tidemark {

// Ends the process with the shell's code of a signal, 128 + its number, when SIGINT or SIGTERM
// arrives while this exists, and writes the last note to stderr. A signal that was ignored stays
// so. At most one exists at a time.
class Interruption {
 public:
  Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  ~Interruption();
  // Sets what is written; more than 1,000 bytes are cut off.
  void note(std::string_view text);

 private:
  using Handler = void (*)(int);
  Handler interrupt_ = nullptr;  // handler of SIGINT that was there before
  Handler terminate_ = nullptr;
};

}  // namespace tidemark
