// Programs of the machine that tests and benchmarks use where they are installed.
#pragma once

#include <cstdio>
#include <string>

namespace tidemark::test {

struct ProgramOutput {
  int status = -1;  // as pclose() gives it; 0 when all went well
  std::string text;
};
// Runs a command line of the shell and returns its output.
[[nodiscard]] inline ProgramOutput output_of(const std::string& command) {
  ProgramOutput output;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return output;
  char buffer[4096];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    output.text.append(buffer, n);
  output.status = pclose(pipe);
  return output;
}

// Returns the first of these that is on the PATH; empty where none is.
template <class... Names>
[[nodiscard]] std::string program_on_path(const Names&... names) {
  for (const auto& name : {std::string(names)...}) {
    const std::string found = output_of("command -v " + name + " 2>/dev/null").text;
    if (!found.empty()) return found.substr(0, found.find('\n'));
  }
  return {};
}
[[nodiscard]] inline std::string browser_on_path() {
  return program_on_path("chromium-headless-shell", "chromium", "chromium-browser",
                         "google-chrome");
}

}  // namespace tidemark::test
