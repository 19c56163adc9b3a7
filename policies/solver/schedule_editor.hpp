// A schedule that is changed one computation at a time, with its memory at every computation.
//
//   order    ... c ---- r1 ------------- r2 ...       a copy c of a value and its readers
//   insert   ... c ---- r1         c'--- r2 ...       the value again before r2: absent in between,
//                                                     while c's inputs now stay until c'
//   erase    the reverse
//
// Every computation reads the newest copies of its inputs, and a copy goes right after its last
// reader, so that any list in which each node's first computation follows its inputs is a schedule;
// only memory can be wrong. A change costs time in proportion to the lifetimes that it changes.
#pragma once

#include <cstdint>
#include <vector>

#include "policies/solver/problem.hpp"

namespace tidemark {

class ScheduleEditor {
 public:
  using Occ = std::uint32_t;  // one computation in the list
  static constexpr Occ kNone = ~Occ{0};

  // `problem` must live longer.
  ScheduleEditor(const RematProblem& problem, std::int64_t budget, const Schedule& schedule);

  // Computes `node` once more, right before `before`; some copy of it precedes.
  Occ insert(NodeIndex node, Occ before);
  // Takes out a computation that is not its node's first.
  void erase(Occ occ);

  [[nodiscard]] std::int64_t cost() const { return cost_; }
  // 0 when it fits; else grows with the bytes above the budget, summed over all computations.
  [[nodiscard]] std::int64_t overflow() const { return overflow_; }
  [[nodiscard]] Schedule schedule() const;

  [[nodiscard]] Occ head() const { return head_; }
  [[nodiscard]] Occ next(Occ occ) const { return occs_[occ].next; }
  [[nodiscard]] Occ previous(Occ occ) const { return occs_[occ].previous; }
  [[nodiscard]] NodeIndex node(Occ occ) const { return occs_[occ].node; }
  [[nodiscard]] std::int64_t memory(Occ occ) const { return occs_[occ].memory; }
  [[nodiscard]] Occ end(Occ occ) const { return occs_[occ].end; }  // last reader of this copy
  [[nodiscard]] bool precedes(Occ a, Occ b) const { return occs_[a].label < occs_[b].label; }
  [[nodiscard]] bool is_first(Occ occ) const { return copies_[occs_[occ].node].front() == occ; }
  [[nodiscard]] bool exists(Occ occ) const { return occs_[occ].alive; }
  [[nodiscard]] bool read_by_nobody(Occ occ) const { return occs_[occ].end == occ; }
  [[nodiscard]] std::size_t length() const { return length_; }
  // The newest copy of `node` before `occ`; kNone where there is none.
  [[nodiscard]] Occ copy_before(NodeIndex node, Occ occ) const;
  // The copies of a node in order.
  [[nodiscard]] const std::vector<Occ>& copies(NodeIndex node) const { return copies_[node]; }
  // The first reader of `copy` after `occ`, which lies between the copy and its end.
  [[nodiscard]] Occ reader_after(Occ copy, Occ occ) const;

  // Changes since the mark are taken back by undo_to; commit() forgets how to.
  [[nodiscard]] std::size_t mark() const { return trail_.size(); }
  void undo_to(std::size_t mark);
  void commit();
  // Identifiers are below this; those of erased computations are used again after commit().
  [[nodiscard]] Occ limit() const { return static_cast<Occ>(occs_.size()); }

 private:
  struct Item {
    NodeIndex node = 0;
    Occ previous = kNone;
    Occ next = kNone;
    Occ end = kNone;
    std::int64_t label = 0;   // ascending along the list
    std::int64_t memory = 0;  // bytes during this computation
    bool alive = false;
  };
  struct Change {
    Occ occ;
    Occ before;  // of an erased one; kNone: it was inserted
  };

  void link(Occ occ, Occ before);
  void apply_insert(Occ occ, NodeIndex node, Occ before);
  void apply_erase(Occ occ);
  void relabel();
  void add(Occ from, Occ to, std::int64_t bytes);  // both included
  [[nodiscard]] std::int64_t over(std::int64_t memory) const {
    return memory > budget_ ? 1 + ((memory - budget_) >> shift_) : 0;
  }
  [[nodiscard]] std::int64_t live_after(Occ occ) const;
  [[nodiscard]] Occ last_reader(Occ copy, std::int64_t next_copy_label) const;
  [[nodiscard]] Occ before_label(NodeIndex node, std::int64_t label) const;

  const RematProblem& problem_;
  std::int64_t budget_;
  int shift_ = 0;  // keeps sums of overflows within 63 bits
  std::vector<Item> occs_;
  std::vector<std::vector<Occ>> copies_;  // by node, in order
  Occ head_ = kNone;
  std::size_t length_ = 0;
  std::int64_t cost_ = 0;
  std::int64_t overflow_ = 0;
  std::vector<Change> trail_;
  std::vector<Occ> free_;
};

}  // namespace tidemark
