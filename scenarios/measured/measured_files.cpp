#include "scenarios/measured/measured_files.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/paths.hpp"
#include "sim/memory/trace/text_file.hpp"

namespace tidemark {
namespace measured_files_detail {
namespace {

// `nsys stats` writes lines before the table: the files that it processes, and the title.
bool is_preamble(std::string_view line) {
  constexpr auto kStarts = std::to_array<std::string_view>(
      {"Generating ", "Processing ", "Exporting ", "NOTICE: ", "[", " ** ", "** "});
  return std::any_of(kStarts.begin(), kStarts.end(),
                     [&](std::string_view start) { return line.starts_with(start); }) ||
         line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace
}  // namespace measured_files_detail

std::vector<std::string> measured_files(std::span<const std::string> paths, bool scenarios) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end;
         entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      constexpr auto kEndings = std::to_array<std::string_view>(
          {".csv", ".csv.gz", ".pt.trace.json", ".pt.trace.json.gz"});
      const bool measured =
          std::any_of(kEndings.begin(), kEndings.end(),
                      [&](std::string_view ending) { return name.ends_with(ending); });
      const bool wanted = measured || (scenarios && is_yaml_name(name));
      if (wanted && entry->is_regular_file(error)) found.push_back(entry->path().string());
    }
    if (error) throw UserError({.file = path}, {}, "cannot be read: " + error.message());
    if (found.empty()) {
      throw UserError(
          {.file = path}, {},
          fmt::format("the folder has no *.csv, *.pt.trace.json or one of them with .gz{}",
                      scenarios ? ", and no *.yaml" : ""));
    }
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

CsvTable read_csv_file(const std::string& path) {
  LineReader lines(path);
  std::string text;
  bool begun = false;
  for (std::string_view line; lines.next(line);) {
    if (lines.line_number() == 1 && line.starts_with("SQLite format 3")) {
      throw UserError({.file = path}, {},
                      "is a database of SQLite, as Nsight Systems exports; give the ranges of "
                      "PyTorch's operators: nsys stats --report nvtx_gpu_proj_trace --format csv");
    }
    begun = begun || !measured_files_detail::is_preamble(line);
    if (begun) text += line;
    text += '\n';  // lines keep their numbers
  }
  CsvTable table = parse_csv(text, path);
  if (table.rows.empty()) throw UserError({.file = path}, {}, "the table has no rows");
  return table;
}

}  // namespace tidemark
