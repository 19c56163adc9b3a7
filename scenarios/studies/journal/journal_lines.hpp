// Lines of a sweep's journal that carry a checksum, so that a line that a disk has damaged is
// recognised and its point simulated again.
//
//   {"checksum":"16 hex digits","point":3, ..}
//
// The checksum is over the line as it would be without it. Every change of one byte and, but for
// one in 2^64, every other damage is found.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark {

// Adds the checksum to one JSON object, which has at least one key, and ends the line.
[[nodiscard]] std::string checked_line(std::string_view json);

// The lines of a journal.
struct JournalLines {
  std::string path;
  struct Line {
    std::size_t number = 0;  // line of the file, from 1
    std::string json;        // text without the checksum
  };
  std::vector<Line> whole;           // lines whose checksum is right
  std::vector<std::size_t> damaged;  // numbers of the lines whose checksum is wrong or not there
  // numbers of the lines of a version of Tidemark that wrote no checksums
  std::vector<std::size_t> unchecked;
  std::string first;  // the first line as it stands in the file, without its end

  [[nodiscard]] bool all_whole() const { return damaged.empty() && unchecked.empty(); }
};
// Reads a journal. A last line without its end is that of a process that was killed; it is left
// out. Throws UserError for what cannot be read or is no file.
[[nodiscard]] JournalLines read_journal_lines(const std::string& path);

// Returns "2 lines of out/points.jsonl are damaged (the first is line 5)"; empty if all are whole.
[[nodiscard]] std::string damage_text(const JournalLines& lines);

}  // namespace tidemark
