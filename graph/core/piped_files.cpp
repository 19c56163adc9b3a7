#include "graph/core/piped_files.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/core/errors.hpp"
#include "graph/core/value.hpp"

namespace tidemark {
namespace piped_files_detail {
namespace {

// Returns the number of the open file that a path names.
std::optional<int> descriptor_of(const std::filesystem::path& named) {
  if (named.empty()) return std::nullopt;
  std::error_code error;
  const std::string normal = std::filesystem::absolute(named, error).lexically_normal().string();
  std::string_view path = normal;
  if (path == "/dev/stdin") return STDIN_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    path.remove_prefix(folder.size());
    int descriptor = -1;
    const auto read = std::from_chars(path.data(), path.data() + path.size(), descriptor);
    const bool whole = read.ec == std::errc() && read.ptr == path.data() + path.size();
    if (whole && descriptor >= 0) return descriptor;
  }
  return std::nullopt;
}

bool is_readable_pipe(int descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || !S_ISFIFO(status.st_mode)) return false;
  // A named pipe that is open for both may be one to write to.
  return (fcntl(descriptor, F_GETFL) & O_ACCMODE) == O_RDONLY;
}

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw UserError({.file = path}, {},
                  fmt::format("{}: {}", what, std::generic_category().message(errno)));
}

// Returns the bytes that were read; 0 at the end of the pipe.
std::size_t read_piece(int descriptor, std::array<char, 1U << 16U>& piece,
                       const std::string& path) {
  while (true) {
    const ssize_t count = read(descriptor, piece.data(), piece.size());
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno == EAGAIN) {  // the pipe does not wait by itself
      pollfd waiting{.fd = descriptor, .events = POLLIN, .revents = 0};
      static_cast<void>(poll(&waiting, 1, -1));
    } else if (errno != EINTR) {
      fail(path, "the pipe cannot be read");
    }
  }
}

void replace_by_copy(int descriptor, const std::string& path) {
  constexpr const char* kNoCopy = "this is a pipe, whose bytes cannot be kept";
  const int memory = memfd_create("tidemark", MFD_CLOEXEC);
  if (memory < 0) fail(path, kNoCopy);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> copy(fdopen(memory, "w+b"), &std::fclose);
  if (!copy) fail(path, kNoCopy);
  std::array<char, 1U << 16U> piece;
  std::size_t kept = 0;
  while (const std::size_t count = read_piece(descriptor, piece, path)) {
    kept += count;
    if (kept > kMaxFileBytes) {
      throw UserError({.file = path}, {},
                      fmt::format("larger than {} MiB, more than is kept of a pipe; write a file",
                                  kMaxFileBytes >> 20));
    }
    if (std::fwrite(piece.data(), 1, count, copy.get()) != count) fail(path, kNoCopy);
  }
  if (std::fflush(copy.get()) != 0) fail(path, kNoCopy);
  std::rewind(copy.get());
  if (dup2(fileno(copy.get()), descriptor) < 0) fail(path, kNoCopy);
}

}  // namespace
}  // namespace piped_files_detail

bool is_open_file_of_process(const std::filesystem::path& path) {
  return piped_files_detail::descriptor_of(path).has_value();
}

bool is_piped(const std::filesystem::path& path) {
  const std::optional<int> descriptor = piped_files_detail::descriptor_of(path);
  return descriptor && piped_files_detail::is_readable_pipe(*descriptor);
}

void keep_piped(const std::string& path) {
  const std::optional<int> descriptor = piped_files_detail::descriptor_of(path);
  if (!descriptor) return;
  // Points of a sweep may open the same file at once. What is left of a pipe that could not be kept
  // is no file: it fails again.
  static std::mutex one_reader;
  static std::map<int, UserError> failed;
  const std::scoped_lock lock(one_reader);
  if (const auto before = failed.find(*descriptor); before != failed.end()) throw before->second;
  if (!piped_files_detail::is_readable_pipe(*descriptor)) return;
  try {
    piped_files_detail::replace_by_copy(*descriptor, path);
  } catch (const UserError& error) {
    failed.emplace(*descriptor, error);
    throw;
  }
}

std::filesystem::path folder_of_file(const std::string& path) {
  if (is_open_file_of_process(path)) return {};
  return std::filesystem::path(path).parent_path();
}

}  // namespace tidemark
