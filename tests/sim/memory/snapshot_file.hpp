// PyTorch's memory snapshots, written for one test.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "plots/pickle_writer.hpp"

namespace tidemark {

// A frame of a stack, innermost first.
struct SnapshotFrame {
  std::string name;
  std::string file;
  std::int64_t line = 0;
};
struct Entry {
  std::string action;
  std::int64_t address = 0;
  std::int64_t size = 0;
  std::int64_t stream = 0;
  std::vector<SnapshotFrame> frames;
};
struct BlockState {
  std::int64_t size = 0;
  std::string state = "inactive";
  std::int64_t requested = 0;
};
struct SegmentState {
  std::int64_t address = 0;
  std::vector<BlockState> blocks;
  std::int64_t pool = 0;  // second number of segment_pool_id
};

// A snapshot with a trace per device; the segments are device 0's.
class SnapshotFile {
 public:
  SnapshotFile(const std::vector<std::vector<Entry>>& traces,
               const std::vector<SegmentState>& segments)
      : path_((std::filesystem::temp_directory_path() /
               fmt::format("tidemark-snapshot-{}.pickle", getpid()))
                  .string()) {
    std::ofstream out(path_, std::ios::binary);
    PickleWriter pickle(out);
    const auto integer = [&](std::string_view key, std::int64_t value) {
      pickle.key(key);
      pickle.integer(value);
    };
    const auto list = [&](std::string_view key, const auto& items, const auto& write) {
      pickle.key(key);
      pickle.begin_list();
      for (const auto& item : items) {
        pickle.begin_item();
        write(item);
      }
      pickle.end_list();
    };
    pickle.begin_dict();
    list("segments", segments, [&](const SegmentState& segment) {
      pickle.begin_dict();
      integer("device", 0);
      integer("address", segment.address);
      integer("stream", 0);
      pickle.key("segment_pool_id");
      pickle.pair(0, segment.pool);
      list("blocks", segment.blocks, [&](const BlockState& block) {
        pickle.begin_dict();
        integer("size", block.size);
        integer("requested_size", block.requested);
        pickle.key("state");
        pickle.text(block.state);
        pickle.end_dict();
      });
      pickle.end_dict();
    });
    list("device_traces", traces, [&](const std::vector<Entry>& trace) {
      pickle.begin_list();
      for (const Entry& entry : trace) {
        pickle.begin_item();
        pickle.begin_dict();
        pickle.key("action");
        pickle.word(entry.action);
        integer(entry.action == "oom" ? "device_free" : "addr", entry.address);
        integer("size", entry.size);
        integer("stream", entry.stream);
        if (!entry.frames.empty()) {
          list("frames", entry.frames, [&](const SnapshotFrame& frame) {
            pickle.begin_dict();
            pickle.key("name");
            pickle.text(frame.name);
            pickle.key("filename");
            pickle.text(frame.file);
            integer("line", frame.line);
            pickle.end_dict();
          });
        }
        pickle.end_dict();
      }
      pickle.end_list();
    });
    pickle.end_dict();
    pickle.finish();
  }
  ~SnapshotFile() { std::filesystem::remove(path_); }
  SnapshotFile(const SnapshotFile&) = delete;
  SnapshotFile& operator=(const SnapshotFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tidemark
