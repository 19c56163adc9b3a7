#include "cli/output/output_folder.hpp"

#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const std::string& problem) {
  throw UserError({.file = path.string()}, {}, problem);
}

}  // namespace

OutputFolder::OutputFolder(const std::string& path) : folder_(path) {
  std::error_code error;
  if (path.empty()) throw UserError("the output folder has an empty name");
  if (fs::exists(folder_, error) && !fs::is_directory(folder_, error)) {
    fail(folder_, "is a file; -o takes a folder");
  }
  for (fs::path p = fs::absolute(folder_).lexically_normal(); !p.empty() && !fs::exists(p, error);
       p = p.parent_path()) {
    made_.insert(made_.begin(), p);
    if (p == p.parent_path()) break;
  }
  error.clear();
  fs::create_directories(folder_, error);
  if (error) fail(folder_, fmt::format("the folder cannot be made: {}", error.message()));
  // A probe, so that an hour of simulation does not end in an error.
  const fs::path probe = folder_ / fmt::format(".tidemark-{}", getpid());
  const bool writable = std::ofstream(probe).is_open();
  fs::remove(probe, error);
  if (!writable) fail(folder_, "the folder cannot be written");
}

OutputFolder::~OutputFolder() {
  if (committed_) return;
  std::error_code error;
  for (File& file : files_) {
    file.stream.reset();
    fs::remove(file.temporary, error);
  }
  // remove() leaves a folder alone that is not empty.
  for (std::size_t i = made_.size(); i-- > 0;)
    fs::remove(made_[i], error);
}

std::ofstream& OutputFolder::add(const std::string& name) {
  File file{.final_path = folder_ / name,
            .temporary = folder_ / fmt::format(".{}.{}", name, getpid())};
  file.stream = std::make_unique<std::ofstream>(file.temporary, std::ios::binary | std::ios::trunc);
  if (!file.stream->is_open()) fail(file.final_path, "cannot be written");
  files_.push_back(std::move(file));
  return *files_.back().stream;
}

void OutputFolder::commit() {
  for (File& file : files_) {
    file.stream->close();
    if (file.stream->fail()) fail(file.final_path, "cannot be written (is the disk full?)");
  }
  for (File& file : files_) {
    std::error_code error;
    fs::rename(file.temporary, file.final_path, error);
    if (error) fail(file.final_path, fmt::format("cannot be written: {}", error.message()));
  }
  committed_ = true;
}

std::vector<std::string> OutputFolder::written() const {
  std::vector<std::string> paths;
  for (const File& file : files_)
    paths.push_back(file.final_path.string());
  return paths;
}

}  // namespace tidemark
