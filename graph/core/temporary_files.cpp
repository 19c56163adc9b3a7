#include "graph/core/temporary_files.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "graph/core/paths.hpp"

namespace tidemark {
namespace temporary_files_detail {
namespace {

constexpr std::string_view kStart = ".tidemark-";

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

// Returns what the hidden files of this machine's processes begin with.
std::string start_of_names() {
  return fmt::format("{}{}-", kStart, host_name());
}

// Returns the process that a hidden file of this machine belongs to; 0 for any other name.
pid_t owner_of(std::string_view name, std::string_view start) {
  if (!name.starts_with(start)) return 0;
  name.remove_prefix(start.size());
  pid_t process = 0;
  const auto read = std::from_chars(name.data(), name.data() + name.size(), process);
  const bool named = read.ec == std::errc() && read.ptr != name.data() + name.size();
  return named && *read.ptr == '-' ? process : 0;
}

}  // namespace
}  // namespace temporary_files_detail

std::filesystem::path new_temporary(const std::filesystem::path& file) {
  std::filesystem::path path = file;
  path.replace_filename(fmt::format("{}{}-{}", temporary_files_detail::start_of_names(), getpid(),
                                    file.filename().string()));
  std::error_code error;
  std::filesystem::remove(path, error);
  constexpr mode_t kMode = 0666;  // as far as the process's mask allows
  const int opened =
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kMode);
  if (opened < 0) return {};
  close(opened);
  return path;
}

void remove_abandoned(const std::filesystem::path& folder) {
  const std::string start = temporary_files_detail::start_of_names();
  for (const std::string& name : names_in_folder(folder)) {
    const pid_t process = temporary_files_detail::owner_of(name, start);
    if (process <= 0 || kill(process, 0) == 0 || errno != ESRCH) continue;
    std::error_code error;
    std::filesystem::remove(folder / name, error);
  }
}

std::string this_process() {
  return fmt::format("{}, process {}", temporary_files_detail::host_name(), getpid());
}

}  // namespace tidemark
