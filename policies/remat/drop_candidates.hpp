// The values that a schedule may drop where it has too much memory, by what they cost again.
//
//   score = cost of the value with all that it needs and that was freed / bytes that it gives
//
// Pricing a value walks its inputs and the memory between them, and most are never asked for: the
// cost of the value alone is a lower bound, and only those are priced that may be next.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "policies/remat/problem.hpp"
#include "policies/remat/schedule_editor.hpp"

namespace tidemark {

class DropCandidates {
 public:
  using Occ = ScheduleEditor::Occ;

  struct Candidate {
    NodeIndex node = 0;
    Occ copy = 0;
    double score = 0;
  };

  static constexpr std::size_t kLikely = 24;  // values that are weighed with all that they need

  // All arguments must live longer. Noise is drawn from `random`.
  DropCandidates(const RematProblem& problem, const ScheduleEditor& list, std::int64_t budget,
                 std::mt19937_64& random);

  // Finds the values that are resident but unread during `at`. `noise` > 0: likely scores are
  // multiplied by up to e^(noise / 2), or divided.
  void find(Occ at, double noise);
  // Returns how many were found.
  [[nodiscard]] std::size_t size() const { return found_.size(); }
  // Returns the found ones one by one: the likely ones, the least score first, then the others
  // in no order; nothing after the last. Between two calls the schedule is as it was in find().
  std::optional<Candidate> take();

 private:
  // A value that may be computed again.
  struct Droppable {
    NodeIndex node;
    std::int64_t bytes;
    double tenth;  // of its bytes
    double cost;   // above 0
  };
  // A candidate whose score is a lower bound until it is priced.
  struct Likely {
    Candidate candidate;
    double alone;  // score of the value alone
    double noise;
    bool priced;
  };

  [[nodiscard]] static bool less(const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score < b.score : a.node < b.node;
  }
  std::int64_t price(NodeIndex node, Occ reader);

  const RematProblem& problem_;
  const ScheduleEditor& list_;
  std::int64_t budget_;
  std::mt19937_64& random_;
  std::vector<Droppable> droppable_;  // in the order in which they are computed first
  Occ at_ = ScheduleEditor::kNone;
  std::vector<Candidate> found_;
  std::vector<Likely> likely_;
  std::size_t taken_ = 0;  // those of found_ that are or were likely, or are taken
  std::vector<NodeIndex> stack_;
  std::vector<std::uint64_t> marks_;  // by node: the last walk that met it
  std::uint64_t mark_ = 0;
};

}  // namespace tidemark
