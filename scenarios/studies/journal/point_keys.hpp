// Keys of a sweep's points: digests of all that a point's result follows from.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "scenarios/read/scenario.hpp"
#include "scenarios/studies/simulate_points.hpp"

namespace tidemark {

// Returns the SHA-1 of a text as 40 hex digits.
[[nodiscard]] std::string sha1_of(std::string_view text);

// Computes the keys of points, each file that they name read once.
class PointKeys {
 public:
  PointKeys(const Environment& environment, std::span<const std::string> plugins);
  // `previous`: the key of the previous point of the same run (smaller_budget.hpp); empty for the
  // first.
  [[nodiscard]] std::string key(const PointDocument& point, const std::string& previous);

 private:
  std::string text_of(const Value& value);
  // Adds the profiles or networks of a folder to common_.
  void add_folder(const std::string& folder);
  // Returns the content of a file; else the text.
  std::string scalar(const Value& value);
  // Returns the digest of the files that a profile extends or is like; empty if there are none.
  std::string base_of(const std::string& path);
  // Returns a file's digest with that of what it extends; empty if there is no such file.
  const std::string& content_of(const std::string& path);

  // Text on which all points depend: the version, the plug-ins, profiles and networks.
  std::string common_;
  std::map<std::string, std::string> contents_;
  std::size_t depth_ = 0;  // files that extend the one that is being read
};

}  // namespace tidemark
