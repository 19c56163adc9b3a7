// The points of a sweep on disk, each as soon as it is done: what a killed sweep leaves, and what
// shards are merged from.
//
// A journal is a text file, points.jsonl, or points-0-of-3.jsonl of a shard, with one JSON object
// per line:
//   {"tidemark": version, "sweep": key, "name", "published": [..], "points": 12, "shard": 0,
//    "shards": 3, "command"}
//   {"point": index in the sweep, "key": .., "overrides": {key: value as its JSON text},
//    "result": entry of the result document}
// and a checksum in each (journal_lines.hpp). A line without its end is that of a process that was
// killed; it is left out, and so are lines that fail their checksum or have none.
#pragma once

#include <cstddef>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/read/scenario.hpp"
#include "sim/step/simulate.hpp"

namespace tidemark {

// A part of a sweep: shard `index` of `count` has every count-th of the runs of budget_runs(),
// which stay together.
struct Shard {
  std::size_t index = 0;
  std::size_t count = 1;
};
// Parses "0/3". Throws std::invalid_argument.
[[nodiscard]] Shard parse_shard(const std::string& text);

// Identifies a sweep, so that its points can be recognised later.
struct SweepIdentity {
  std::string name;
  std::vector<std::string> published;  // filled by the caller
  std::string command;                 // runs one of several points; filled by the caller
  // Each point's key is a digest of all that its result follows from. That is the document with its
  // overrides, the content of the files and of the profile that it names and of the plug-ins, the
  // previous points of its run (smaller_budget.hpp), the program's version; but not the folders of
  // the files.
  std::vector<std::string> keys;
  std::vector<bool> of_shard;                    // whether each point belongs to the shard
  std::vector<std::vector<Override>> overrides;  // overrides of each point
};
// Returns a digest of all points' keys.
[[nodiscard]] std::string digest_of(const SweepIdentity& sweep);
[[nodiscard]] SweepIdentity sweep_identity(const Value& document, const Environment& environment,
                                           std::span<const std::string> plugins,
                                           const Shard& shard);

// The results of the sweep's points, by index, as far as a folder's journals have them.
using KnownPoints = std::map<std::size_t, PointResult>;
struct JournalPoints {
  KnownPoints known;
  std::vector<std::string> damage;  // describes the damaged lines, by file that has some
  std::size_t others = 0;           // results in the shard's file that are of no point of the sweep
};
// Reads the journals of `folder`; points that could not be built are left out. Throws UserError
// when a file cannot be read.
[[nodiscard]] JournalPoints journal_points(const std::string& folder, const SweepIdentity& sweep,
                                           const Shard& shard = {});

class SweepJournal {
 public:
  // Returns the file of a shard in `folder`.
  [[nodiscard]] static std::string path_of(const std::string& folder, const Shard& shard);
  // Returns a name beside a shard's file that is free, for what another sweep has left there.
  [[nodiscard]] static std::string earlier_of(const std::string& path);

  // Opens the file of this shard, begun anew with the known points. The file that was there is
  // renamed to `earlier` unless that is empty. Throws UserError.
  SweepJournal(const std::string& folder, const SweepIdentity& sweep, const Shard& shard,
               const KnownPoints& known, const std::string& earlier = {});
  // Adds a result, which is on disk when the call returns. Throws UserError.
  void add(std::size_t index, const PointResult& result);

 private:
  std::string path_;
  const SweepIdentity& sweep_;
  std::ofstream file_;
};

// All points of a sweep whose shards have been run into one folder, in the sweep's order.
struct MergedSweep {
  std::vector<std::string> published;
  std::string command;  // see SweepIdentity; empty where the journals have none
  std::vector<PointResult> points;
  std::vector<std::string> damage;  // damaged lines, whose points other lines have, by file
};
// Merges the journals of a folder. Throws UserError: no journals, journals of different sweeps or
// versions, a damaged first line, points that are missing, with the command to run for them.
[[nodiscard]] MergedSweep merge_journals(const std::string& folder);

}  // namespace tidemark
