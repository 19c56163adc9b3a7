// Is there a packing of at most a given height? A depth-first search over placements from the
// lowest address upwards, complete: without a limit on nodes it ends with a packing or a proof.
//
// Every buffer of a packing can be pushed down until it rests on another or on address 0. So a node
// takes the buffer b that can lie lowest, and either
//   places it there, or
//   holds it up: some unplaced buffer c that is live together with b has to lie under it, so b lies
//   no lower than the lowest end that any such c can have.
// Pruned:
//   - a section of time in which the lowest unplaced buffer and the bytes of all unplaced buffers
//     together exceed the height;
//   - b at an address under which another unplaced buffer would fit whole: it could have been
//     placed there first;
// Split apart: when a section has no unplaced buffer left, what comes before and after it are
// independent. A buffer that spans all sections of its part can lie on top of everything: it is set
// aside and the part gets a lower height.
// The ideas are those of minimalloc (Moffitt, ASPLOS 2023) and of bottom-left packing.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "sim/memory/packing/time_sections.hpp"

namespace tidemark {

enum class SearchOutcome : std::uint8_t { kFound, kImpossible, kStopped };

class HeightSearch {
 public:
  // `spans` and `sizes` (> 0) are by buffer, over `sections` sections. `stop` is called now and
  // then.
  HeightSearch(std::vector<SectionSpan> spans, std::vector<std::int64_t> sizes, int sections,
               std::function<bool()> stop);

  // `rank` is a permutation by buffer: of the buffers that can lie lowest, the least is tried
  // first.
  [[nodiscard]] SearchOutcome run(std::int64_t height, const std::vector<int>& rank,
                                  std::int64_t node_limit);
  // Returns the buffers' offsets; valid after a run that found them.
  [[nodiscard]] const std::vector<std::int64_t>& offsets() const { return offset_; }
  [[nodiscard]] std::int64_t nodes() const { return nodes_; }  // nodes of the last run
  // Returns how many checks failed in each section.
  [[nodiscard]] const std::vector<std::int64_t>& failures() const { return failures_; }

 private:
  using Buffers = std::vector<int>;
  struct Part;  // some unplaced buffers, independent of the others

  // The buffer of a part that can lie lowest, those held up excepted.
  struct Candidate {
    int place = 0;  // place in the part
    // stays at this value if there is none
    std::int64_t rests_at = std::numeric_limits<std::int64_t>::max();
    // The lowest end that any buffer of the part could have now. All that is still to come lies at
    // the candidate's address or higher, so a buffer that ends below could drop there: that packing
    // is found on another branch.
    std::int64_t least_end = std::numeric_limits<std::int64_t>::max();
  };

  // The searches restore `part` when they fail.
  [[nodiscard]] bool solve_part(Buffers& part, std::int64_t height);
  [[nodiscard]] bool solve_parts(const Buffers& buffers, std::int64_t height);
  [[nodiscard]] bool set_aside(std::vector<Part>& parts);
  [[nodiscard]] bool place_and_go_on(Buffers& part, int place, std::int64_t height);
  [[nodiscard]] bool hold_up(int buffer, std::int64_t height);
  [[nodiscard]] Candidate lowest(const Buffers& part) const;
  // Places a buffer; returns whether that emptied a section.
  bool take(int buffer);
  void give_back(int buffer);
  void raise(int buffer, std::int64_t address);
  void mark(int section);
  [[nodiscard]] bool check_section(int section, std::int64_t height);
  [[nodiscard]] bool check_marked(std::int64_t height);
  void write(std::int64_t& place, std::int64_t value);
  void undo_to(std::size_t mark);
  [[nodiscard]] bool out_of_nodes();
  template <class T>
  static T& at(std::vector<T>& v, int i) {
    return v[static_cast<std::size_t>(i)];
  }
  template <class T>
  static const T& at(const std::vector<T>& v, int i) {
    return v[static_cast<std::size_t>(i)];
  }

  std::vector<SectionSpan> spans_;
  std::vector<std::int64_t> sizes_;
  std::vector<std::vector<int>> neighbours_;  // buffers that are live together with each buffer
  std::vector<std::vector<int>> members_;     // buffers of each section
  std::function<bool()> stop_;
  const std::vector<int>* rank_ = nullptr;

  // Columns by buffer. rests_: the highest end below it, where it would lie now; at_least_: no
  // packing on this path has it lower: more than rests_ while it is held up, and the maximum once
  // it is placed.
  std::vector<std::int64_t> rests_, at_least_, offset_;
  std::vector<char> placed_;
  // The unplaced buffers of each section: bytes, number, least at_least_.
  std::vector<std::int64_t> unplaced_bytes_, lowest_in_;
  std::vector<int> unplaced_count_;
  std::vector<std::int64_t> failures_;  // checks that failed in each section

  std::vector<int> marked_;  // sections to be checked
  std::vector<char> is_marked_;
  std::vector<std::pair<std::int64_t*, std::int64_t>> trail_;  // values to restore when going back
  std::int64_t nodes_ = 0;
  std::int64_t node_limit_ = 0;
  bool stopped_ = false;
};

}  // namespace tidemark
