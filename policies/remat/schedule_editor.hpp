// A schedule that is changed one computation at a time, with its memory at every computation.
//
//   order    ... c ---- r1 ------------- r2 ...       a copy c of a value and its readers
//   insert   ... c ---- r1         c'--- r2 ...       the value again before r2: absent in between,
//                                                     while c's inputs now stay until c'
//   erase    the reverse
//
// Every computation reads the newest copies of its inputs, and a copy is freed right after its last
// reader, so that any list in which each node's first computation follows its inputs is a schedule;
// only memory can be wrong. A change costs time in proportion to the lifetimes that it changes and,
// with a small constant, to the length of the list.
#pragma once

#include <cstdint>
#include <vector>

#include "policies/remat/problem.hpp"

namespace tidemark {

class ScheduleEditor {
 public:
  using Occ = std::uint32_t;  // one computation in the list
  static constexpr Occ kNone = ~Occ{0};

  // `problem` must live longer.
  ScheduleEditor(const RematProblem& problem, std::int64_t budget, const Schedule& schedule);

  // Computes `node` once more, right before `before`; some copy of it precedes.
  Occ insert(NodeIndex node, Occ before);
  // Removes a computation that is not its node's first.
  void erase(Occ occ);

  [[nodiscard]] std::int64_t cost() const { return cost_; }
  // 0 when it fits; else grows with the bytes above the budget, summed over all computations.
  [[nodiscard]] std::int64_t overflow() const { return overflow_; }
  [[nodiscard]] Schedule schedule() const;

  [[nodiscard]] const std::vector<Occ>& order() const { return order_; }
  [[nodiscard]] Occ next(Occ occ) const {
    const std::size_t after = position_[occ] + std::size_t{1};
    return after < order_.size() ? order_[after] : kNone;
  }
  [[nodiscard]] Occ previous(Occ occ) const {
    return position_[occ] > 0 ? order_[position_[occ] - 1] : kNone;
  }
  [[nodiscard]] NodeIndex node(Occ occ) const { return occs_[occ].node; }
  [[nodiscard]] std::int64_t memory(Occ occ) const { return memory_[position_[occ]]; }
  [[nodiscard]] Occ end(Occ occ) const { return occs_[occ].end; }  // last reader of this copy
  [[nodiscard]] bool precedes(Occ a, Occ b) const { return position_[a] < position_[b]; }
  // Returns the first computation of those with the most memory.
  [[nodiscard]] Occ highest() const;
  // Whether `bytes` more fit during every computation strictly between two.
  [[nodiscard]] bool fits_between(Occ from, Occ to, std::int64_t bytes) const;
  [[nodiscard]] bool is_first(Occ occ) const { return occs_[occ].first; }
  [[nodiscard]] bool exists(Occ occ) const { return occs_[occ].alive; }
  [[nodiscard]] bool read_by_nobody(Occ occ) const { return occs_[occ].end == occ; }
  [[nodiscard]] std::size_t length() const { return order_.size(); }
  // Returns the newest copy of `node` before `occ`; kNone where there is none.
  [[nodiscard]] Occ copy_before(NodeIndex node, Occ occ) const {
    return before_position(node, position_[occ]);
  }
  [[nodiscard]] Occ first(NodeIndex node) const { return copies_[node].front(); }
  // Returns the copies of a node in order.
  [[nodiscard]] const std::vector<Occ>& copies(NodeIndex node) const { return copies_[node]; }
  // Returns the first reader of `copy` after `occ`, which is between the copy and its end.
  [[nodiscard]] Occ reader_after(Occ copy, Occ occ) const;

  // undo_to() takes back the changes since the mark; commit() makes them permanent.
  [[nodiscard]] std::size_t mark() const { return trail_.size(); }
  void undo_to(std::size_t mark);
  void commit();
  // Upper limit of identifiers; those of erased computations are used again after commit().
  [[nodiscard]] Occ limit() const { return static_cast<Occ>(occs_.size()); }

 private:
  struct Item {
    NodeIndex node = 0;
    Occ end = kNone;
    bool alive = false;
    bool free = false;   // the identifier may be used again
    bool first = false;  // of its node's computations, which stays
  };
  struct Change {
    Occ occ;
    Occ before;  // the one after an erased computation; kNone: it was the last
    bool inserted;
  };

  using Position = std::uint32_t;

  void apply_insert(Occ occ, NodeIndex node, Occ before);
  void apply_erase(Occ occ);
  void renumber(Position from);
  void add(Position from, Position to, std::int64_t bytes);  // `to` excluded
  [[nodiscard]] std::int64_t over(std::int64_t memory) const {
    return memory > budget_ ? 1 + ((memory - budget_) >> shift_) : 0;
  }
  [[nodiscard]] std::int64_t live_after(Occ occ) const;
  // Returns the last reader before position `until` of a copy.
  [[nodiscard]] Occ last_reader(Occ copy, Position until) const;
  [[nodiscard]] Occ before_position(NodeIndex node, Position position) const {
    const Occ newest = newest_[node];
    if (newest == kNone || position_[newest] < position) return newest;
    if (occs_[newest].first) return kNone;
    const std::vector<Occ>& copies = copies_[node];
    if (copies.size() > 8) return before_position_of_many(copies, position);
    for (std::size_t k = copies.size(); k-- > 0;) {
      if (position_[copies[k]] < position) return copies[k];
    }
    return kNone;
  }
  [[nodiscard]] Occ before_position_of_many(const std::vector<Occ>& copies,
                                            Position position) const;

  const RematProblem& problem_;
  std::int64_t budget_;
  int shift_ = 0;  // keeps sums of overflows within 63 bits
  std::vector<Item> occs_;
  std::vector<Position> position_;        // position of each occurrence
  std::vector<Occ> order_;                // occurrence at each position
  std::vector<std::int64_t> memory_;      // bytes during the computation at each position
  std::vector<std::vector<Occ>> copies_;  // occurrences of each node, in order
  std::vector<Occ> newest_;               // the last of copies_
  std::int64_t cost_ = 0;
  std::int64_t overflow_ = 0;
  std::vector<Change> trail_;
  std::vector<Occ> free_;
};

}  // namespace tidemark
