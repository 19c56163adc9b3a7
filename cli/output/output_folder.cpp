#include "cli/output/output_folder.hpp"

#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <sys/stat.h>

#include "graph/core/errors.hpp"
#include "graph/core/paths.hpp"
#include "graph/core/temporary_files.hpp"

namespace tidemark {
namespace output_folder_detail {
namespace {

namespace fs = std::filesystem;

// The list of the last report's files in the folder, one per line: bytes, time of the last change
// in seconds to the nanosecond, name. What has changed since is the user's.
constexpr const char* kList = ".tidemark-files";

// Returns the line for a file; empty where it cannot be looked up.
std::string line_of(const fs::path& file, const std::string& name) {
  struct stat status {};
  if (lstat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return fmt::format("{} {}.{:09} {}", status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec, name);
}

struct EarlierReport {
  std::set<std::string> unchanged;  // files that are as it wrote them
  std::set<std::string> changed;  // files that have been changed since, or of which that is unknown
};

// Returns the name in a line of the list. Earlier versions wrote the name alone.
std::string name_in(const std::string& line) {
  constexpr std::string_view kDigits = "0123456789";
  constexpr std::size_t kDecimals = 10;  // a point and nanoseconds
  const std::size_t size = line.find_first_not_of(kDigits);
  if (size == 0 || size == std::string::npos || line[size] != ' ') return line;
  const std::size_t seconds = line.find_first_not_of(kDigits, size + 1);
  if (seconds == std::string::npos || line[seconds] != '.') return line;
  const std::size_t end = line.find_first_not_of(kDigits, seconds + 1);
  if (end != seconds + kDecimals || line[end] != ' ') return line;
  return line.substr(end + 1);
}

EarlierReport earlier_report(const fs::path& folder) {
  constexpr std::uintmax_t kMostBytes = std::uintmax_t{1} << 20;
  EarlierReport earlier;
  const fs::path list = folder / kList;
  std::error_code error;
  const bool is_list = is_file(list) && fs::file_size(list, error) <= kMostBytes && !error;
  std::ifstream known(is_list ? list : fs::path());
  for (std::string line; std::getline(known, line);) {
    const std::string name = name_in(line);
    // A damaged list must not reach beyond the folder.
    if (name.empty() || name == kList || fs::path(name).filename() != name) continue;
    if (line_of(folder / name, name) == line) {
      earlier.unchanged.insert(name);
    } else if (is_file(folder / name)) {
      earlier.changed.insert(name);
    }
  }
  // A file that the list names in two ways is left.
  for (const std::string& name : earlier.changed)
    earlier.unchanged.erase(name);
  return earlier;
}

[[noreturn]] void fail(const fs::path& path, const std::string& problem) {
  throw UserError({.file = path.string()}, {}, problem);
}

}  // namespace
}  // namespace output_folder_detail

OutputFolder::OutputFolder(const std::string& path) : folder_(path) {
  std::error_code error;
  if (path.empty()) throw UserError("the output folder has an empty name");
  if (path_exists(folder_) && !is_folder(folder_)) {
    output_folder_detail::fail(folder_, "is a file; -o takes a folder");
  }
  for (std::filesystem::path p = absolute_path(folder_); !p.empty() && !path_exists(p);
       p = p.parent_path()) {
    made_.insert(made_.begin(), p);
    if (p == p.parent_path()) break;
  }
  std::filesystem::create_directories(folder_, error);
  if (error) {
    output_folder_detail::fail(folder_,
                               fmt::format("the folder cannot be made: {}", error.message()));
  }
  // A probe file shows a mistake before an hour of simulation, not after.
  const std::filesystem::path probe = new_temporary(folder_ / "probe");
  const bool writable = !probe.empty();
  std::filesystem::remove(probe, error);
  if (writable) remove_abandoned(folder_);
  if (!writable) output_folder_detail::fail(folder_, "the folder cannot be written");
}

OutputFolder::~OutputFolder() {
  if (committed_) return;
  std::error_code error;
  for (File& file : files_) {
    file.stream.reset();
    std::filesystem::remove(file.temporary, error);
  }
  // remove() keeps a folder that is not empty.
  for (std::size_t i = made_.size(); i-- > 0;)
    std::filesystem::remove(made_[i], error);
}

std::ofstream& OutputFolder::add(const std::string& name) {
  File file{.final_path = folder_ / name, .temporary = new_temporary(folder_ / name)};
  if (file.temporary.empty()) output_folder_detail::fail(file.final_path, "cannot be written");
  file.stream = std::make_unique<std::ofstream>(file.temporary, std::ios::binary | std::ios::trunc);
  if (!file.stream->is_open()) output_folder_detail::fail(file.final_path, "cannot be written");
  files_.push_back(std::move(file));
  return *files_.back().stream;
}

void OutputFolder::close() {
  for (File& file : files_) {
    if (!file.stream->is_open()) continue;
    file.stream->close();
    if (file.stream->fail()) output_folder_detail::fail(file.final_path, kNotWritten);
  }
}

void OutputFolder::commit() {
  close();
  for (File& file : files_) {
    std::error_code error;
    std::filesystem::rename(file.temporary, file.final_path, error);
    if (error) {
      output_folder_detail::fail(file.final_path,
                                 fmt::format("cannot be written: {}", error.message()));
    }
  }
  committed_ = true;
}

void OutputFolder::commit_replacing() {
  output_folder_detail::EarlierReport earlier = output_folder_detail::earlier_report(folder_);
  close();
  std::string lines;
  for (const File& file : files_) {
    const std::string name = file.final_path.filename().string();
    lines += output_folder_detail::line_of(file.temporary, name) + '\n';
    earlier.unchanged.erase(name);
    earlier.changed.erase(name);
  }
  add(output_folder_detail::kList) << lines;
  commit();
  files_.pop_back();  // the list itself is no result
  std::error_code error;
  for (const std::string& name : earlier.unchanged)
    std::filesystem::remove(folder_ / name, error);
  left_.assign(earlier.changed.begin(), earlier.changed.end());
}

std::vector<std::string> OutputFolder::written() const {
  std::vector<std::string> paths;
  for (const File& file : files_)
    paths.push_back(file.final_path.string());
  return paths;
}

}  // namespace tidemark
