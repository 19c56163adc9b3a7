#include "policies/remat/schedule_editor.hpp"

#include <algorithm>

namespace tidemark {

ScheduleEditor::ScheduleEditor(const RematProblem& problem, std::int64_t budget,
                               const Schedule& schedule)
    : problem_(problem), budget_(budget), copies_(problem.size()), newest_(problem.size(), kNone) {
  std::int64_t total = problem.fixed;
  for (NodeIndex node = 0; node < problem.size(); ++node)
    total += problem.bytes[node] + problem.workspace[node];
  while (total >> shift_ >= std::int64_t{1} << 42)
    ++shift_;

  for (const NodeIndex node : schedule) {
    const Occ occ = static_cast<Occ>(occs_.size());
    const bool first = copies_[node].empty();
    occs_.push_back({.node = node, .end = occ, .alive = true, .first = first});
    order_.push_back(occ);
    position_.push_back(occ);
    memory_.push_back(problem.fixed + problem.workspace[node]);
    for (const NodeIndex dep : problem.deps[node])
      occs_[copies_[dep].back()].end = occ;
    copies_[node].push_back(occ);
    newest_[node] = occ;
    cost_ += problem.cost[node];
  }
  std::vector<std::int64_t> freed(schedule.size() + 1);  // bytes freed before a position
  for (const Item& item : occs_)
    freed[item.end + std::size_t{1}] += problem.bytes[item.node];
  std::int64_t live = 0;
  for (Position p = 0; p < memory_.size(); ++p) {
    live += problem.bytes[occs_[p].node] - freed[p];
    memory_[p] += live;
    overflow_ += over(memory_[p]);
  }
}

Schedule ScheduleEditor::schedule() const {
  Schedule nodes;
  nodes.reserve(order_.size());
  for (const Occ occ : order_)
    nodes.push_back(occs_[occ].node);
  return nodes;
}

void ScheduleEditor::add(Position from, Position to, std::int64_t bytes) {
  std::int64_t change = 0;
  for (Position p = from; p < to; ++p) {
    const std::int64_t before = memory_[p];
    memory_[p] = before + bytes;
    change += over(before + bytes) - over(before);
  }
  overflow_ += change;
}

ScheduleEditor::Occ ScheduleEditor::highest() const {
  return order_[static_cast<std::size_t>(std::max_element(memory_.begin(), memory_.end()) -
                                         memory_.begin())];
}

bool ScheduleEditor::fits_between(Occ from, Occ to, std::int64_t bytes) const {
  const std::int64_t most = budget_ - bytes;
  for (Position p = position_[from] + 1; p < position_[to]; ++p) {
    if (memory_[p] > most) return false;
  }
  return true;
}

ScheduleEditor::Occ ScheduleEditor::before_position_of_many(const std::vector<Occ>& copies,
                                                            Position position) const {
  const auto above = std::partition_point(copies.begin(), copies.end(),
                                          [&](Occ occ) { return position_[occ] < position; });
  return above == copies.begin() ? kNone : *(above - 1);
}

ScheduleEditor::Occ ScheduleEditor::last_reader(Occ copy, Position until) const {
  Occ last = copy;
  for (const NodeIndex reader : problem_.readers[occs_[copy].node]) {
    const Occ occ = before_position(reader, until);
    if (occ != kNone && position_[occ] > position_[last]) last = occ;
  }
  return last;
}

ScheduleEditor::Occ ScheduleEditor::reader_after(Occ copy, Occ occ) const {
  Occ first = occs_[copy].end;
  for (const NodeIndex reader : problem_.readers[occs_[copy].node]) {
    const std::vector<Occ>& copies = copies_[reader];
    const auto at = std::partition_point(copies.begin(), copies.end(),
                                         [&](Occ o) { return position_[o] <= position_[occ]; });
    if (at != copies.end() && position_[*at] < position_[first]) first = *at;
  }
  return first;
}

// Returns the bytes that stay from `occ` to the next computation.
std::int64_t ScheduleEditor::live_after(Occ occ) const {
  const Item& item = occs_[occ];
  std::int64_t live = memory(occ) - problem_.workspace[item.node];
  if (item.end == occ) live -= problem_.bytes[item.node];
  for (const NodeIndex dep : problem_.deps[item.node]) {
    if (occs_[copy_before(dep, occ)].end == occ) live -= problem_.bytes[dep];
  }
  return live;
}

void ScheduleEditor::renumber(Position from) {
  for (auto p = from; p < order_.size(); ++p)
    position_[order_[p]] = p;
}

ScheduleEditor::Occ ScheduleEditor::insert(NodeIndex node, Occ before) {
  Occ occ = 0;
  if (free_.empty()) {
    occ = static_cast<Occ>(occs_.size());
    occs_.emplace_back();
    position_.push_back(0);
  } else {
    occ = free_.back();
    free_.pop_back();
  }
  apply_insert(occ, node, before);
  trail_.push_back({occ, kNone, true});
  return occ;
}

void ScheduleEditor::erase(Occ occ) {
  trail_.push_back({occ, next(occ), false});
  apply_erase(occ);
}

void ScheduleEditor::apply_insert(Occ occ, NodeIndex node, Occ before) {
  const auto at = before == kNone ? static_cast<Position>(order_.size()) : position_[before];
  const std::int64_t memory = live_after(order_[at - 1]) + problem_.workspace[node];
  Item& item = occs_[occ];
  item = {.node = node, .end = occ, .alive = true};
  order_.insert(order_.begin() + at, occ);
  memory_.insert(memory_.begin() + at, memory);
  renumber(at);
  overflow_ += over(memory);
  for (const NodeIndex dep : problem_.deps[node]) {
    Item& copy = occs_[before_position(dep, at)];
    if (position_[copy.end] >= at) continue;
    add(position_[copy.end] + 1, at + 1, problem_.bytes[dep]);
    copy.end = occ;
  }
  const Occ earlier = before_position(node, at);
  Item& old = occs_[earlier];
  if (position_[old.end] > at) {
    // The later readers read the new copy, whose bytes the old one had taken here.
    item.end = old.end;
    old.end = last_reader(earlier, at);
    add(position_[old.end] + 1, at, -problem_.bytes[node]);
  } else {
    add(at, at + 1, problem_.bytes[node]);
  }
  std::vector<Occ>& copies = copies_[node];
  copies.insert(
      std::partition_point(copies.begin(), copies.end(), [&](Occ o) { return position_[o] < at; }),
      occ);
  newest_[node] = copies.back();
  cost_ += problem_.cost[node];
}

void ScheduleEditor::apply_erase(Occ occ) {
  Item& item = occs_[occ];
  const NodeIndex node = item.node;
  const Position at = position_[occ];
  std::vector<Occ>& copies = copies_[node];
  const auto self =
      std::partition_point(copies.begin(), copies.end(), [&](Occ o) { return position_[o] < at; });
  Item& old = occs_[*(self - 1)];
  copies.erase(self);
  newest_[node] = copies.back();
  for (const NodeIndex dep : problem_.deps[node]) {
    const Occ source = before_position(dep, at);
    Item& copy = occs_[source];
    if (copy.end != occ) continue;
    const std::vector<Occ>& all = copies_[dep];
    const auto following =
        std::partition_point(all.begin(), all.end(), [&](Occ o) { return position_[o] < at; });
    const auto until =
        following == all.end() ? static_cast<Position>(order_.size()) : position_[*following];
    copy.end = last_reader(source, until);
    add(position_[copy.end] + 1, at + 1, -problem_.bytes[dep]);
  }
  if (item.end != occ) {
    add(position_[old.end] + 1, at, problem_.bytes[node]);
    old.end = item.end;
  }
  overflow_ -= over(memory_[at]);
  order_.erase(order_.begin() + at);
  memory_.erase(memory_.begin() + at);
  renumber(at);
  item.alive = false;
  cost_ -= problem_.cost[node];
}

void ScheduleEditor::undo_to(std::size_t mark) {
  while (trail_.size() > mark) {
    const Change change = trail_.back();
    trail_.pop_back();
    if (change.inserted) {
      apply_erase(change.occ);
      occs_[change.occ].free = true;
      free_.push_back(change.occ);
    } else {
      apply_insert(change.occ, occs_[change.occ].node, change.before);
    }
  }
}

void ScheduleEditor::commit() {
  for (const Change& change : trail_) {
    Item& item = occs_[change.occ];
    if (item.alive || item.free) continue;  // one may have changed more than once
    item.free = true;
    free_.push_back(change.occ);
  }
  trail_.clear();
}

}  // namespace tidemark
