#include "scenarios/studies/journal/sweep_lock.hpp"

#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "graph/core/errors.hpp"
#include "graph/core/paths.hpp"
#include "graph/core/printable.hpp"
#include "graph/core/temporary_files.hpp"

namespace tidemark {
namespace sweep_lock_detail {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStart = ".points";
constexpr std::string_view kEnd = ".lock";

// The contents of a lock file: the digest of the sweep and the process.
struct Holder {
  std::string digest;
  std::string process;
};

Holder read_holder(int file) {
  std::array<char, 512> text{};
  const ssize_t size = pread(file, text.data(), text.size(), 0);
  const std::string_view all(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  const std::size_t line = all.find('\n');
  if (line == std::string_view::npos) return {};
  return {std::string(all.substr(0, line)),
          std::string(all.substr(line + 1, all.find('\n', line + 1) - line - 1))};
}

// Whether another process holds the lock of an open file.
bool is_held(int file) {
  if (flock(file, LOCK_SH | LOCK_NB) == 0) {
    flock(file, LOCK_UN);
    return false;
  }
  return errno == EWOULDBLOCK;
}

[[noreturn]] void refuse(const std::string& folder, const Holder& holder, std::string_view what) {
  throw UserError(
      {.file = folder}, {},
      fmt::format("{} runs {} here; wait for it, or choose another folder",
                  holder.process.empty() ? "another process" : printable(holder.process), what));
}

// Throws where a process runs a sweep in the folder that is not `own`; null: any.
void check_others(const std::string& folder, const std::string* own) {
  for (const std::string& name : names_in_folder(folder)) {
    if (!name.starts_with(kStart) || !name.ends_with(kEnd)) continue;
    const int file = open((fs::path(folder) / name).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) continue;
    const bool held = is_held(file);
    const Holder holder = read_holder(file);
    close(file);
    if (held && (own == nullptr || holder.digest != *own))
      refuse(folder, holder, own == nullptr ? "a sweep" : "another sweep");
  }
}

}  // namespace
}  // namespace sweep_lock_detail

SweepLock::SweepLock(const std::string& folder, const SweepIdentity& sweep, const Shard& shard) {
  std::error_code error;
  if (std::filesystem::create_directories(folder, error)) made_ = folder;
  const std::string digest = digest_of(sweep);
  sweep_lock_detail::check_others(folder, &digest);
  const std::string name = fmt::format("{}-{}-of-{}{}", sweep_lock_detail::kStart, shard.index,
                                       shard.count, sweep_lock_detail::kEnd);
  path_ = (std::filesystem::path(folder) / name).string();
  constexpr mode_t kMode = 0666;  // as far as the process's mask allows
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, kMode);
  if (file_ < 0) return;
  if (flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    const sweep_lock_detail::Holder holder = sweep_lock_detail::read_holder(file_);
    close(file_);
    file_ = -1;
    sweep_lock_detail::refuse(folder, holder, "the same points");
  }
  const std::string text = fmt::format("{}\n{}\n", digest, this_process());
  static_cast<void>(ftruncate(file_, 0) == 0 && write(file_, text.data(), text.size()) > 0);
}

// The file goes first: whoever opens it afterwards makes a new one.
SweepLock::~SweepLock() {
  if (file_ < 0) return;
  unlink(path_.c_str());
  close(file_);
  std::error_code error;
  // remove() keeps a folder that is not empty.
  if (!made_.empty()) std::filesystem::remove(made_, error);
}

void refuse_running_sweep(const std::string& folder) {
  sweep_lock_detail::check_others(folder, nullptr);
}

}  // namespace tidemark
