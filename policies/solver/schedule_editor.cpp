#include "policies/solver/schedule_editor.hpp"

#include <algorithm>
#include <limits>

namespace tidemark {
namespace {

constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
constexpr ScheduleEditor::Occ kFree = ScheduleEditor::kNone - 1;  // as `next`: may be used again
constexpr std::int64_t kSpacing = std::int64_t{1} << 40;

}  // namespace

ScheduleEditor::ScheduleEditor(const RematProblem& problem, std::int64_t budget,
                               const Schedule& schedule)
    : problem_(problem), budget_(budget), copies_(problem.size()) {
  std::int64_t total = problem.fixed;
  for (NodeIndex node = 0; node < problem.size(); ++node)
    total += problem.bytes[node] + problem.workspace[node];
  while (total >> shift_ >= std::int64_t{1} << 42)
    ++shift_;

  for (const NodeIndex node : schedule) {
    const Occ occ = static_cast<Occ>(occs_.size());
    occs_.push_back({.node = node,
                     .previous = occ == 0 ? kNone : occ - 1,
                     .end = occ,
                     .label = static_cast<std::int64_t>(occ) * kSpacing,
                     .memory = problem.fixed + problem.workspace[node],
                     .alive = true});
    if (occ == 0) {
      head_ = occ;
    } else {
      occs_[occ - 1].next = occ;
    }
    for (const NodeIndex dep : problem.deps[node])
      occs_[copies_[dep].back()].end = occ;
    copies_[node].push_back(occ);
    cost_ += problem.cost[node];
  }
  length_ = schedule.size();
  for (const Item& item : occs_)
    overflow_ += over(item.memory);
  for (Occ occ = 0; occ < occs_.size(); ++occ)
    add(occ, occs_[occ].end, problem.bytes[occs_[occ].node]);
}

Schedule ScheduleEditor::schedule() const {
  Schedule order;
  for (Occ occ = head_; occ != kNone; occ = occs_[occ].next)
    order.push_back(occs_[occ].node);
  return order;
}

void ScheduleEditor::add(Occ from, Occ to, std::int64_t bytes) {
  for (Occ occ = from;; occ = occs_[occ].next) {
    std::int64_t& memory = occs_[occ].memory;
    overflow_ -= over(memory);
    memory += bytes;
    overflow_ += over(memory);
    if (occ == to) return;
  }
}

ScheduleEditor::Occ ScheduleEditor::before_label(NodeIndex node, std::int64_t label) const {
  const std::vector<Occ>& copies = copies_[node];
  if (copies.size() <= 8) {
    for (std::size_t k = copies.size(); k-- > 0;) {
      if (occs_[copies[k]].label < label) return copies[k];
    }
    return kNone;
  }
  const auto above = std::partition_point(copies.begin(), copies.end(),
                                          [&](Occ occ) { return occs_[occ].label < label; });
  return above == copies.begin() ? kNone : *(above - 1);
}

ScheduleEditor::Occ ScheduleEditor::copy_before(NodeIndex node, Occ occ) const {
  return before_label(node, occs_[occ].label);
}

ScheduleEditor::Occ ScheduleEditor::last_reader(Occ copy, std::int64_t next_copy_label) const {
  Occ last = copy;
  for (const NodeIndex reader : problem_.readers[occs_[copy].node]) {
    const Occ occ = before_label(reader, next_copy_label);
    if (occ != kNone && occs_[occ].label > occs_[last].label) last = occ;
  }
  return last;
}

ScheduleEditor::Occ ScheduleEditor::reader_after(Occ copy, Occ occ) const {
  Occ first = occs_[copy].end;
  for (const NodeIndex reader : problem_.readers[occs_[copy].node]) {
    const std::vector<Occ>& copies = copies_[reader];
    const auto at = std::partition_point(copies.begin(), copies.end(),
                                         [&](Occ o) { return occs_[o].label <= occs_[occ].label; });
    if (at != copies.end() && occs_[*at].label < occs_[first].label) first = *at;
  }
  return first;
}

// Bytes that stay from `occ` to the next computation.
std::int64_t ScheduleEditor::live_after(Occ occ) const {
  const Item& item = occs_[occ];
  std::int64_t live = item.memory - problem_.workspace[item.node];
  if (item.end == occ) live -= problem_.bytes[item.node];
  for (const NodeIndex dep : problem_.deps[item.node]) {
    if (occs_[before_label(dep, item.label)].end == occ) live -= problem_.bytes[dep];
  }
  return live;
}

void ScheduleEditor::relabel() {
  std::int64_t label = 0;
  for (Occ occ = head_; occ != kNone; occ = occs_[occ].next) {
    occs_[occ].label = label;
    label += kSpacing;
  }
}

void ScheduleEditor::link(Occ occ, Occ before) {
  const Occ previous = occs_[before].previous;
  if (occs_[before].label - occs_[previous].label < 2) relabel();
  occs_[occ].label = occs_[previous].label + (occs_[before].label - occs_[previous].label) / 2;
  occs_[occ].previous = previous;
  occs_[occ].next = before;
  occs_[previous].next = occ;
  occs_[before].previous = occ;
}

ScheduleEditor::Occ ScheduleEditor::insert(NodeIndex node, Occ before) {
  Occ occ = 0;
  if (free_.empty()) {
    occ = static_cast<Occ>(occs_.size());
    occs_.emplace_back();
  } else {
    occ = free_.back();
    free_.pop_back();
  }
  apply_insert(occ, node, before);
  trail_.push_back({occ, kNone});
  return occ;
}

void ScheduleEditor::erase(Occ occ) {
  trail_.push_back({occ, occs_[occ].next});
  apply_erase(occ);
}

void ScheduleEditor::apply_insert(Occ occ, NodeIndex node, Occ before) {
  Item& item = occs_[occ];
  const std::int64_t live = live_after(occs_[before].previous);
  item.node = node;
  item.alive = true;
  item.end = occ;
  item.memory = live + problem_.workspace[node];
  link(occ, before);
  overflow_ += over(item.memory);
  for (const NodeIndex dep : problem_.deps[node]) {
    Item& copy = occs_[before_label(dep, item.label)];
    if (occs_[copy.end].label >= item.label) continue;
    add(occs_[copy.end].next, occ, problem_.bytes[dep]);
    copy.end = occ;
  }
  const Occ earlier = before_label(node, item.label);
  Item& old = occs_[earlier];
  if (occs_[old.end].label > item.label) {
    // Its later readers read the new copy, whose bytes the old one had taken here.
    item.end = old.end;
    old.end = last_reader(earlier, item.label);
    if (occs_[old.end].next != occ) add(occs_[old.end].next, item.previous, -problem_.bytes[node]);
  } else {
    add(occ, occ, problem_.bytes[node]);
  }
  std::vector<Occ>& copies = copies_[node];
  copies.insert(std::partition_point(copies.begin(), copies.end(),
                                     [&](Occ o) { return occs_[o].label < item.label; }),
                occ);
  cost_ += problem_.cost[node];
  ++length_;
}

void ScheduleEditor::apply_erase(Occ occ) {
  Item& item = occs_[occ];
  const NodeIndex node = item.node;
  std::vector<Occ>& copies = copies_[node];
  const auto at = std::partition_point(copies.begin(), copies.end(),
                                       [&](Occ o) { return occs_[o].label < item.label; });
  Item& old = occs_[*(at - 1)];
  copies.erase(at);
  for (const NodeIndex dep : problem_.deps[node]) {
    const Occ source = before_label(dep, item.label);
    Item& copy = occs_[source];
    if (copy.end != occ) continue;
    const std::vector<Occ>& all = copies_[dep];
    const auto following = std::partition_point(all.begin(), all.end(),
                                                [&](Occ o) { return occs_[o].label < item.label; });
    copy.end = last_reader(source, following == all.end() ? kLast : occs_[*following].label);
    add(occs_[copy.end].next, occ, -problem_.bytes[dep]);
  }
  if (item.end != occ) {
    if (occs_[old.end].next != occ) add(occs_[old.end].next, item.previous, problem_.bytes[node]);
    old.end = item.end;
  }
  overflow_ -= over(item.memory);
  occs_[item.previous].next = item.next;
  occs_[item.next].previous = item.previous;
  item.alive = false;
  cost_ -= problem_.cost[node];
  --length_;
}

void ScheduleEditor::undo_to(std::size_t mark) {
  while (trail_.size() > mark) {
    const Change change = trail_.back();
    trail_.pop_back();
    if (change.before == kNone) {
      apply_erase(change.occ);
      occs_[change.occ].next = kFree;
      free_.push_back(change.occ);
    } else {
      apply_insert(change.occ, occs_[change.occ].node, change.before);
    }
  }
}

void ScheduleEditor::commit() {
  for (const Change& change : trail_) {
    Item& item = occs_[change.occ];
    if (item.alive || item.next == kFree) continue;
    item.next = kFree;  // an occurrence may have changed more than once
    free_.push_back(change.occ);
  }
  trail_.clear();
}

}  // namespace tidemark
