// Runs the built program in a folder of its own, into pipes or on a terminal.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/paths.hpp"

namespace tidemark::testing {

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

// The output that a person sees: stdout and stderr of a terminal.
struct Screen {
  int code = -1;
  std::string text;
  double seconds = 0;
};

class Workspace {
 public:
  Workspace() {
    std::string path = (std::filesystem::temp_directory_path() / "tidemark-cli-XXXXXX").string();
    folder_ = mkdtemp(path.data());
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  [[nodiscard]] std::string read(const std::filesystem::path& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  [[nodiscard]] bool exists(const std::string& name) const {
    return std::filesystem::exists(folder_ / name);
  }
  // Returns the names in a folder of the workspace, unsorted.
  [[nodiscard]] std::vector<std::string> names(const std::string& of = ".") const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / of)) {
      names.push_back(entry.path().filename().string());
    }
    // The list of a report's files, by which the next report knows what is stale.
    std::erase(names, ".tidemark-files");
    std::sort(names.begin(), names.end());
    return names;
  }

  // Runs `arguments` as a shell reads them; `before` may set variables.
  [[nodiscard]] Outcome run(const std::string& arguments, const std::string& before = "") const {
    const std::string capture = folder_.string() + ".err";
    const std::string command = "cd '" + folder_.string() + "' && " + before + " '" +
                                test::program_path() + "' " + arguments + " 2>'" + capture + "'";
    Outcome outcome;
    std::FILE* pipe = popen(command.c_str(), "r");
    char buffer[4096];
    for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
      outcome.out.append(buffer, n);
    }
    const int status = pclose(pipe);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    std::ifstream err(capture, std::ios::binary);
    outcome.err = {std::istreambuf_iterator<char>(err), std::istreambuf_iterator<char>()};
    std::filesystem::remove(capture);
    return outcome;
  }

  // Runs the same on a terminal of its own; NO_COLOR is not set unless `before` does.
  [[nodiscard]] Screen run_on_terminal(const std::string& arguments, const std::string& before = "",
                                       unsigned short columns = 100) const {
    winsize size{.ws_row = 40, .ws_col = columns};
    int terminal = -1;
    const auto begin = std::chrono::steady_clock::now();
    const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
    if (child < 0) return {};
    if (child == 0) {
      const std::string command = "cd '" + folder_.string() + "' && unset NO_COLOR; TERM=xterm " +
                                  before + " '" + test::program_path() + "' " + arguments;
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    Screen screen;
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(terminal, buffer, sizeof buffer)) > 0;)
      screen.text.append(buffer, static_cast<std::size_t>(n));
    int status = 0;
    waitpid(child, &status, 0);
    close(terminal);
    screen.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    screen.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return screen;
  }

 private:
  std::filesystem::path folder_;
};

[[nodiscard]] inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace tidemark::testing
