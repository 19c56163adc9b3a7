// Lines of a text file, compressed or not, and files that appear only when they are whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/core/errors.hpp"

struct gzFile_s;

namespace tidemark {

struct CloseCompressed {
  void operator()(gzFile_s* file) const;
};
using CompressedFile = std::unique_ptr<gzFile_s, CloseCompressed>;

// Opens a file to be read, which gzip may have packed. A pipe of a shell may be opened again and
// again. Throws UserError: a folder, or a file that cannot be opened.
[[nodiscard]] CompressedFile open_compressed(const std::string& path);

// Returns the first bytes of a file, unpacked: at most 4 KiB, fewer if there are fewer or it cannot
// be read. Throws UserError for a named pipe, which gives its bytes only once.
[[nodiscard]] std::string beginning_of(const std::string& path);

// Reads a file line by line in constant memory; gzip is recognised by its content. Throws
// UserError: missing, a folder, damaged, or a line longer than kMaxLine.
class LineReader {
 public:
  static constexpr std::size_t kMaxLine = std::size_t{1} << 20;

  explicit LineReader(const std::string& path);

  // Returns false at the end. The line has no line break and is valid until the next call.
  bool next(std::string_view& line);
  // number of the last line, from 1
  [[nodiscard]] std::int64_t line_number() const { return line_number_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  bool fill();
  [[noreturn]] void fail(const std::string& problem) const;

  std::string path_;
  CompressedFile file_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // start of what has not been handed out
  std::size_t end_ = 0;
  bool at_end_ = false;
  std::int64_t line_number_ = 0;
};

// Says what is wrong with a compressed file that could not be read.
[[nodiscard]] std::string gzip_problem(gzFile_s* file);

// Writes next to `path` and takes its place at commit(); without commit() nothing is left. A path
// that ends in .gz is compressed. Something that is no regular file (/dev/stdout) is written
// directly. Throws UserError.
class WholeFile {
 public:
  explicit WholeFile(const std::string& path);
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;
  ~WholeFile();

  void write(std::string_view text) {
    if (buffer_.size() + text.size() > buffer_.capacity()) flush();
    buffer_.append(text);
  }
  void commit();

 private:
  void flush();
  [[noreturn]] void fail(const std::string& problem) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty: written directly
  gzFile_s* file_ = nullptr;
  std::string buffer_;
};

}  // namespace tidemark
