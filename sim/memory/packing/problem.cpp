#include "sim/memory/packing/problem.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace tidemark {
namespace problem_detail {
namespace {

// The begin or end of a buffer; at one instant the ends come first, since lifetimes are half open.
struct Change {
  std::int64_t time = 0;
  bool begins = false;
  std::size_t buffer = 0;
};

std::vector<Change> changes_of(const PackingProblem& problem) {
  std::vector<Change> changes;
  changes.reserve(2 * problem.buffers.size());
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    changes.push_back({problem.buffers[i].lower, true, i});
    changes.push_back({problem.buffers[i].upper, false, i});
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return a.time != b.time ? a.time < b.time
                            : std::pair(a.begins, a.buffer) < std::pair(b.begins, b.buffer);
  });
  return changes;
}

}  // namespace
}  // namespace problem_detail

Bytes most_live_bytes(const PackingProblem& problem) {
  Bytes live;
  Bytes most;
  for (const problem_detail::Change& change : problem_detail::changes_of(problem)) {
    const Bytes size = problem.buffers[change.buffer].size;
    live += change.begins ? size : -size;
    most = std::max(most, live);
  }
  return most;
}

Bytes height_of(const PackingProblem& problem, const std::vector<Bytes>& offsets) {
  Bytes height;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    height = std::max(height, offsets[i] + problem.buffers[i].size);
  }
  return height;
}

std::optional<std::string> packing_fault(const PackingProblem& problem, const Packing& packing) {
  const std::vector<Bytes>& offsets = packing.offsets;
  if (offsets.size() != problem.buffers.size()) {
    return fmt::format("{} offsets for {} buffers", offsets.size(), problem.buffers.size());
  }
  Bytes height;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    if (offsets[i] < Bytes(0)) {
      return fmt::format("buffer {} has the offset {}", i, offsets[i].count);
    }
    height = std::max(height, offsets[i] + problem.buffers[i].size);
  }
  if (height != packing.height) {
    return fmt::format("the height is {}, not {}", height.count, packing.height.count);
  }
  std::map<Bytes, std::size_t> occupied;  // first address -> buffer; never overlapping
  for (const problem_detail::Change& change : problem_detail::changes_of(problem)) {
    const std::size_t i = change.buffer;
    const Bytes size = problem.buffers[i].size;
    if (size == Bytes(0)) continue;
    if (!change.begins) {
      occupied.erase(offsets[i]);
      continue;
    }
    const auto above = occupied.lower_bound(offsets[i]);
    if (above != occupied.end() && above->first < offsets[i] + size) {
      return fmt::format("buffers {} and {} overlap", above->second, i);
    }
    if (above != occupied.begin()) {
      const auto [begin, below] = *std::prev(above);
      if (begin + problem.buffers[below].size > offsets[i]) {
        return fmt::format("buffers {} and {} overlap", below, i);
      }
    }
    occupied.emplace(offsets[i], i);
  }
  return std::nullopt;
}

}  // namespace tidemark
