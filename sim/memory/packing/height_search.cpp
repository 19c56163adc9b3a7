#include "sim/memory/packing/height_search.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace tidemark {
namespace height_search_detail {
namespace {

constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kNodesBetweenStops = 256;  // a power of two

}  // namespace
}  // namespace height_search_detail

struct HeightSearch::Part {
  Buffers buffers;
  Buffers on_top;           // buffers that span all of its sections
  std::int64_t height = 0;  // height for `buffers`
};

HeightSearch::HeightSearch(std::vector<SectionSpan> spans, std::vector<std::int64_t> sizes,
                           int sections, std::function<bool()> stop)
    : spans_(std::move(spans)),
      sizes_(std::move(sizes)),
      neighbours_(spans_.size()),
      members_(static_cast<std::size_t>(sections)),
      stop_(std::move(stop)) {
  const int count = static_cast<int>(spans_.size());
  for (int b = 0; b < count; ++b) {
    for (int other = 0; other < count; ++other) {
      if (b != other && overlap(at(spans_, b), at(spans_, other))) {
        at(neighbours_, b).push_back(other);
      }
    }
    for (int s = at(spans_, b).first; s < at(spans_, b).last; ++s)
      at(members_, s).push_back(b);
  }
}

SearchOutcome HeightSearch::run(std::int64_t height, const std::vector<int>& rank,
                                std::int64_t node_limit) {
  rank_ = &rank;
  node_limit_ = node_limit;
  nodes_ = 0;
  stopped_ = false;
  trail_.clear();
  rests_.assign(spans_.size(), 0);
  at_least_ = offset_ = rests_;
  placed_.assign(spans_.size(), 0);
  lowest_in_.assign(members_.size(), 0);
  unplaced_bytes_ = failures_ = lowest_in_;
  unplaced_count_.assign(members_.size(), 0);
  is_marked_.assign(members_.size(), 0);
  Buffers all;
  for (int b = 0; b < static_cast<int>(spans_.size()); ++b) {
    give_back(b);
    all.push_back(b);
  }
  for (const std::int64_t bytes : unplaced_bytes_) {
    if (bytes > height) return SearchOutcome::kImpossible;
  }
  if (solve_parts(all, height)) return SearchOutcome::kFound;
  return stopped_ ? SearchOutcome::kStopped : SearchOutcome::kImpossible;
}

bool HeightSearch::out_of_nodes() {
  ++nodes_;
  if (nodes_ > node_limit_) stopped_ = true;
  if ((nodes_ & (height_search_detail::kNodesBetweenStops - 1)) == 0 && stop_()) stopped_ = true;
  return stopped_;
}

bool HeightSearch::solve_part(Buffers& part, std::int64_t height) {
  const std::size_t start = trail_.size();
  while (!out_of_nodes()) {
    const Candidate b = lowest(part);
    if (b.rests_at >= b.least_end) break;
    if (place_and_go_on(part, b.place, height)) return true;
    if (stopped_ || !hold_up(at(part, b.place), height)) break;
  }
  undo_to(start);
  return false;
}

HeightSearch::Candidate HeightSearch::lowest(const Buffers& part) const {
  Candidate best;
  int best_rank = 0;
  for (int place = 0; place < static_cast<int>(part.size()); ++place) {
    const int b = at(part, place);
    const std::int64_t rests_at = at(rests_, b);
    best.least_end = std::min(best.least_end, rests_at + at(sizes_, b));
    if (rests_at > best.rests_at || at(at_least_, b) != rests_at) continue;
    const int rank = at(*rank_, b);
    if (rests_at == best.rests_at && rank > best_rank) continue;
    best.rests_at = rests_at;
    best.place = place;
    best_rank = rank;
  }
  return best;
}

bool HeightSearch::place_and_go_on(Buffers& part, int place, std::int64_t height) {
  const int buffer = at(part, place);
  const std::int64_t end = at(rests_, buffer) + at(sizes_, buffer);
  if (end > height) return false;
  const std::size_t start = trail_.size();
  at(offset_, buffer) = at(rests_, buffer);
  const bool splits = take(buffer);
  bool possible = true;
  for (const int other : at(neighbours_, buffer)) {
    if (at(placed_, other) != 0 || at(rests_, other) >= end) continue;
    write(at(rests_, other), end);
    raise(other, end);
    possible = possible && end + at(sizes_, other) <= height;
  }
  possible = check_marked(height) && possible;
  if (possible) {
    at(part, place) = part.back();
    part.pop_back();
    if (splits ? solve_parts(part, height) : solve_part(part, height)) return true;
    part.push_back(buffer);
    std::swap(at(part, place), part.back());
  }
  give_back(buffer);
  undo_to(start);
  return false;
}

bool HeightSearch::hold_up(int buffer, std::int64_t height) {
  std::int64_t lowest_end = height_search_detail::kUnbounded;
  for (const int under : at(neighbours_, buffer)) {
    if (at(placed_, under) != 0) continue;
    const std::int64_t address = std::max(at(at_least_, under), at(rests_, buffer));
    lowest_end = std::min(lowest_end, address + at(sizes_, under));
  }
  if (lowest_end == height_search_detail::kUnbounded || lowest_end + at(sizes_, buffer) > height)
    return false;
  raise(buffer, lowest_end);
  return check_marked(height);
}

bool HeightSearch::solve_parts(const Buffers& buffers, std::int64_t height) {
  std::vector<Part> parts;
  for (const Buffers& component : independent_components(spans_, buffers)) {
    Part part;
    part.height = height;
    SectionSpan whole = at(spans_, component.front());
    for (const int b : component) {
      whole.last = std::max(whole.last, at(spans_, b).last);
    }
    for (const int b : component) {
      (at(spans_, b) == whole ? part.on_top : part.buffers).push_back(b);
    }
    parts.push_back(std::move(part));
  }
  // Small parts come first: those that fail do so at once.
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.buffers.size() < b.buffers.size(); });
  const std::size_t start = trail_.size();
  bool solved = set_aside(parts);
  std::size_t done = 0;
  Buffers left;  // consumed by the search
  for (; solved && done < parts.size(); done += solved ? 1 : 0) {
    const Part& part = parts[done];
    if (part.buffers.empty()) continue;
    left = part.buffers;
    // Without the buffers on top a part may split further.
    solved = part.on_top.empty() ? solve_part(left, part.height) : solve_parts(left, part.height);
  }
  if (solved) return true;
  undo_to(start);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (const int b : parts[i].on_top)
      give_back(b);
    if (i >= done) continue;
    for (const int b : parts[i].buffers)
      give_back(b);
  }
  return false;
}

// Puts the buffers that span a whole part on top of it; false when a part then cannot be packed.
bool HeightSearch::set_aside(std::vector<Part>& parts) {
  bool possible = true;
  for (Part& part : parts) {
    for (const int b : part.on_top) {
      take(b);
      part.height -= at(sizes_, b);
    }
    std::int64_t address = part.height;
    for (const int b : part.on_top) {
      possible = possible && at(rests_, b) <= part.height;
      at(offset_, b) = address;
      address += at(sizes_, b);
    }
    possible = check_marked(part.height) && possible;
  }
  return possible;
}

bool HeightSearch::take(int buffer) {
  bool emptied = false;
  const std::int64_t before = at(at_least_, buffer);
  at(placed_, buffer) = 1;
  write(at(at_least_, buffer), height_search_detail::kUnbounded);
  for (int s = at(spans_, buffer).first; s < at(spans_, buffer).last; ++s) {
    at(unplaced_bytes_, s) -= at(sizes_, buffer);
    emptied = --at(unplaced_count_, s) == 0 || emptied;
    if (at(lowest_in_, s) == before) mark(s);
  }
  return emptied;
}

void HeightSearch::give_back(int buffer) {
  at(placed_, buffer) = 0;
  for (int s = at(spans_, buffer).first; s < at(spans_, buffer).last; ++s) {
    at(unplaced_bytes_, s) += at(sizes_, buffer);
    ++at(unplaced_count_, s);
  }
}

// The sections whose lowest buffer this was have changed, and no others.
void HeightSearch::raise(int buffer, std::int64_t address) {
  const std::int64_t before = at(at_least_, buffer);
  if (address <= before) return;
  write(at(at_least_, buffer), address);
  for (int s = at(spans_, buffer).first; s < at(spans_, buffer).last; ++s) {
    if (at(lowest_in_, s) == before) mark(s);
  }
}

void HeightSearch::mark(int section) {
  if (at(is_marked_, section) != 0) return;
  at(is_marked_, section) = 1;
  marked_.push_back(section);
}

// Everything unplaced in a section lies above its lowest buffer's address.
bool HeightSearch::check_section(int section, std::int64_t height) {
  if (at(unplaced_count_, section) == 0) return true;
  std::int64_t lowest = height_search_detail::kUnbounded;
  for (const int b : at(members_, section)) {
    lowest = std::min(lowest, at(at_least_, b));
  }
  if (lowest != at(lowest_in_, section)) write(at(lowest_in_, section), lowest);
  if (lowest + at(unplaced_bytes_, section) <= height) return true;
  ++at(failures_, section);
  return false;
}

bool HeightSearch::check_marked(std::int64_t height) {
  bool possible = true;
  for (const int s : marked_) {
    at(is_marked_, s) = 0;
    possible = possible && check_section(s, height);
  }
  marked_.clear();
  return possible;
}

void HeightSearch::write(std::int64_t& place, std::int64_t value) {
  trail_.emplace_back(&place, place);
  place = value;
}

void HeightSearch::undo_to(std::size_t mark) {
  while (trail_.size() > mark) {
    *trail_.back().first = trail_.back().second;
    trail_.pop_back();
  }
}

}  // namespace tidemark
