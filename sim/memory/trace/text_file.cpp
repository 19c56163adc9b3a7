#include "sim/memory/trace/text_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <fmt/format.h>
#include <zlib.h>

#include "graph/core/errors.hpp"
#include "graph/core/paths.hpp"
#include "graph/core/piped_files.hpp"
#include "graph/core/temporary_files.hpp"

namespace tidemark {
namespace text_file_detail {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBuffer = std::size_t{256} << 10;

std::string system_message() {
  return std::error_code(errno, std::generic_category()).message();
}

}  // namespace
}  // namespace text_file_detail

std::string gzip_problem(gzFile_s* file) {
  int code = Z_OK;
  const std::string text = gzerror(file, &code);
  if (code == Z_ERRNO) return text_file_detail::system_message();
  if (code == Z_BUF_ERROR) return "the compressed file ends too early";
  // zlib puts the name of the file before what is wrong.
  const std::size_t name = text.rfind(": ");
  return "the compressed file is damaged: " +
         (name == std::string::npos ? text : text.substr(name + 2));
}

void CloseCompressed::operator()(gzFile_s* file) const {
  gzclose(file);
}

CompressedFile open_compressed(const std::string& path) {
  if (is_folder(path)) throw UserError({.file = path}, {}, "this is a folder, not a file");
  keep_piped(path);
  errno = 0;
  CompressedFile file(gzopen(path.c_str(), "rb"));
  if (!file) throw UserError({.file = path}, {}, why_not_opened(path));
  return file;
}

std::string beginning_of(const std::string& path) {
  constexpr std::size_t kMost = 4096;
  std::error_code unknown;
  if (std::filesystem::is_fifo(path, unknown) && !is_piped(path)) {
    throw UserError({.file = path}, {},
                    "this is a named pipe, which can be read only once; give a file, or the pipe "
                    "of a shell: <(...)");
  }
  keep_piped(path);
  const CompressedFile file(gzopen(path.c_str(), "rb"));
  std::string bytes(kMost, '\0');
  const int count = file ? gzread(file.get(), bytes.data(), kMost) : 0;
  bytes.resize(static_cast<std::size_t>(std::max(count, 0)));
  return bytes;
}

LineReader::LineReader(const std::string& path)
    : path_(path), file_(open_compressed(path)), buffer_(text_file_detail::kBuffer) {
  gzbuffer(file_.get(), text_file_detail::kBuffer);
}

void LineReader::fail(const std::string& problem) const {
  throw UserError({.file = path_}, {}, problem);
}

// Moves the unread rest to the front and reads behind it.
bool LineReader::fill() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (end_ == buffer_.size()) {
    if (end_ >= kMaxLine) {
      throw UserError({.file = path_, .line = static_cast<int>(line_number_ + 1)}, {},
                      fmt::format("the line is longer than {} bytes", kMaxLine));
    }
    buffer_.resize(2 * buffer_.size());
  }
  const auto room = static_cast<unsigned>(buffer_.size() - end_);
  const int count = gzread(file_.get(), buffer_.data() + end_, room);
  if (count < 0) fail(gzip_problem(file_.get()));
  if (count == 0) {
    int code = Z_OK;
    gzerror(file_.get(), &code);
    if (code != Z_OK) fail(gzip_problem(file_.get()));
    at_end_ = true;
  }
  end_ += static_cast<std::size_t>(count);
  return count > 0;
}

bool LineReader::next(std::string_view& line) {
  std::size_t searched = 0;
  while (true) {
    const char* from = buffer_.data() + begin_;
    const std::size_t size = end_ - begin_;
    const void* found = std::memchr(from + searched, '\n', size - searched);
    if (found == nullptr && !at_end_) {
      searched = size;
      fill();
      continue;
    }
    if (found == nullptr && size == 0) return false;
    const std::size_t length =
        found == nullptr ? size : static_cast<std::size_t>(static_cast<const char*>(found) - from);
    line = std::string_view(from, length);
    begin_ += found == nullptr ? size : length + 1;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    ++line_number_;
    return true;
  }
}

WholeFile::WholeFile(const std::string& path) : path_(path) {
  if (path.empty()) throw UserError("the output file has an empty name");
  std::error_code error;
  if (std::filesystem::is_directory(path_, error)) fail("is a folder");
  // A symbolic link is kept: the file that it points to is written.
  if (std::filesystem::is_symlink(path_, error)) {
    const std::filesystem::path target = std::filesystem::weakly_canonical(path_, error);
    if (!error) path_ = target;
  }
  const bool special =
      std::filesystem::exists(path_, error) && !std::filesystem::is_regular_file(path_, error);
  if (!special) {
    if (path_.has_parent_path()) std::filesystem::create_directories(path_.parent_path(), error);
    temporary_ = new_temporary(path_);
    if (temporary_.empty())
      fail(fmt::format("cannot be written: {}", text_file_detail::system_message()));
  }
  const bool compressed = path_.extension() == ".gz";
  const std::filesystem::path& opened = special ? path_ : temporary_;
  file_ = gzopen(opened.c_str(), compressed ? "wb" : "wbT");
  if (file_ == nullptr) {
    temporary_.clear();
    fail(fmt::format("cannot be written: {}", text_file_detail::system_message()));
  }
  gzbuffer(file_, text_file_detail::kBuffer);
  buffer_.reserve(text_file_detail::kBuffer);
}

WholeFile::~WholeFile() {
  if (file_ != nullptr) gzclose(file_);
  std::error_code error;
  if (!temporary_.empty()) std::filesystem::remove(temporary_, error);
}

void WholeFile::fail(const std::string& problem) const {
  throw UserError({.file = path_.string()}, {}, problem);
}

void WholeFile::flush() {
  if (buffer_.empty()) return;
  const int written = gzwrite(file_, buffer_.data(), static_cast<unsigned>(buffer_.size()));
  if (written != static_cast<int>(buffer_.size())) {
    fail(fmt::format("cannot be written: {}", gzip_problem(file_)));
  }
  buffer_.clear();
}

void WholeFile::commit() {
  flush();
  const int closed = gzclose(file_);
  file_ = nullptr;
  if (closed != Z_OK) fail(kNotWritten);
  if (temporary_.empty()) return;
  std::error_code error;
  std::filesystem::rename(temporary_, path_, error);
  if (error) fail(fmt::format("cannot be written: {}", error.message()));
  temporary_.clear();
}

}  // namespace tidemark
