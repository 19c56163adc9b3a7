// Figures of a device profile: numbers that say where they come from.
//
//   bandwidth: {value: 2039GB/s, source: "NVIDIA A100 data sheet", note: "peak"}
//   peaks:                       # or one source for a group
//     source: "NVIDIA A100 data sheet, dense"
//     fp16: 312TFLOP/s
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/core/decoder.hpp"

namespace tidemark {

// One number of a profile, as `tidemark describe` prints it.
struct Figure {
  std::string path;    // "hbm.bandwidth"
  std::string value;   // value as written, with its unit
  std::string source;  // never empty
  std::string note;    // caveats; may be empty
};

// Reads the figures of one mapping and of the groups inside it, and records each in `figures`.
// A figure's source is its own or that of the nearest group around it; without one it is a
// UserError.
class FigureReader {
 public:
  FigureReader(const Decoder& decoder, std::vector<Figure>& figures)
      : FigureReader(decoder, {}, {}, figures) {}

  [[nodiscard]] FigureReader group(std::string_view key) const;
  // Returns every group of this mapping, in the order of the file.
  [[nodiscard]] std::vector<std::pair<std::string, FigureReader>> groups() const;
  [[nodiscard]] const Decoder& decoder() const { return decoder_; }

  // Reads a figure. T is bool, int, double, Bytes, Duration, BytesPerSecond or FlopsPerSecond.
  template <class T>
  [[nodiscard]] T required(std::string_view key, Range range = {}) const;
  template <class T>
  [[nodiscard]] std::optional<T> maybe(std::string_view key, Range range = {}) const;
  // Throws for the first key that was never read.
  void finish() const { decoder_.finish(); }

 private:
  FigureReader(const Decoder& decoder, std::string path, std::string source,
               std::vector<Figure>& figures);
  void record(std::string_view key, const Value& value, std::string source, std::string note) const;

  Decoder decoder_;
  std::string path_;    // path from the root of the profile
  std::string source_;  // source of the nearest group; may be empty
  std::vector<Figure>* figures_;
};

// Returns `number` as {value: number, source: source}.
[[nodiscard]] Value figure_value(const Value& number, const std::string& source);

// Lays `changes` over `base`, key by key. A number in `changes` replaces the whole figure that it
// meets; its source is the nearest one in `changes`, else `source`. Texts (name, description) are
// replaced as they are.
[[nodiscard]] Value merge_figures(const Value& base, const Value& changes,
                                  const std::string& source);

}  // namespace tidemark
