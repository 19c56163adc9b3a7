// Orders of pipelines against rules that are written down in another way: what a stage may do next,
// index arithmetic, and runs of all stages under a clock of unit times.
#include "graph/analysis/pipeline_schedule.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/shared_data.hpp"

namespace tidemark::pipeline_schedule_test {
namespace {

using Work = std::vector<ScheduledPart>;

// Runs all ranks under one clock; a forward waits for that of the piece before it, a backward for
// that of the piece after it.
struct Clocked {
  bool runs = true;                // no rank waits permanently
  std::int64_t end = 0;            // when the last part ends
  std::vector<std::int64_t> idle;  // by rank, from its first part to its last
};

Clocked run_clocked(const std::vector<Work>& ranks, const std::vector<ChunkPlace>& places) {
  using Key = std::tuple<int, int, int>;  // kind, micro-batch, piece
  std::map<std::pair<int, int>, int> piece_of;
  for (std::size_t i = 0; i < places.size(); ++i)
    piece_of[{places[i].rank, places[i].chunk}] = static_cast<int>(i);
  const int last_piece = static_cast<int>(places.size()) - 1;
  std::map<Key, std::int64_t> ended;
  std::vector<std::size_t> next(ranks.size(), 0);
  std::vector<std::int64_t> free(ranks.size(), 0);
  std::vector<std::int64_t> begun(ranks.size(), -1);
  for (bool moves = true; moves;) {
    moves = false;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      while (next[r] < ranks[r].size()) {
        const ScheduledPart& part = ranks[r][next[r]];
        const int piece = piece_of.at({static_cast<int>(r), part.chunk});
        std::vector<Key> needs;
        const int kind = part.part == PartKind::kForward ? 0 : is_backward(part.part) ? 1 : 2;
        if (kind == 0 && piece > 0) needs.emplace_back(0, part.micro_batch, piece - 1);
        if (kind == 1) needs.emplace_back(0, part.micro_batch, piece);
        if (kind == 1 && piece < last_piece) needs.emplace_back(1, part.micro_batch, piece + 1);
        if (kind == 2) needs.emplace_back(1, part.micro_batch, piece);
        std::int64_t at = free[r];
        bool ready = true;
        for (const Key& need : needs) {
          const auto known = ended.find(need);
          ready = ready && known != ended.end();
          if (known != ended.end()) at = std::max(at, known->second);
        }
        if (!ready) break;
        if (begun[r] < 0) begun[r] = at;
        free[r] = at + 1;
        ended[{kind, part.micro_batch, piece}] = free[r];
        ++next[r];
        moves = true;
      }
    }
  }
  Clocked result;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    result.runs = result.runs && next[r] == ranks[r].size();
    result.end = std::max(result.end, free[r]);
    result.idle.push_back(free[r] - begun[r] - static_cast<std::int64_t>(ranks[r].size()));
  }
  return result;
}

// PipeDream's rule: a stage takes a backward if one has come, else a forward while fewer than
// p - s micro-batches are in flight. Unit times.
std::string greedy_1f1b(int stages, int stage, int micro_batches) {
  const auto p = static_cast<std::size_t>(stages);
  std::vector<int> forwards(p, 0);
  std::vector<int> backwards(p, 0);
  std::vector<std::string> orders(p);
  for (int tick = 0; tick < 4 * (micro_batches + stages); ++tick) {
    const std::vector<int> forwards_before = forwards;
    const std::vector<int> backwards_before = backwards;
    for (std::size_t s = 0; s < p; ++s) {
      const bool last = s + 1 == p;
      const int come = s == 0 ? micro_batches : forwards_before[s - 1];
      const int back = last ? forwards_before[s] : backwards_before[s + 1];
      const int in_flight = forwards[s] - backwards[s];
      std::string& order = orders[s];
      if (backwards[s] < back) {
        order += (order.empty() ? "B" : " B") + std::to_string(backwards[s]++);
      } else if (forwards[s] < come && in_flight < static_cast<int>(p - s)) {
        order += (order.empty() ? "F" : " F") + std::to_string(forwards[s]++);
      }
    }
  }
  return orders[static_cast<std::size_t>(stage)];
}

// Megatron's index arithmetic for the k-th forward or backward of a rank.
ScheduledPart kth(int k, int group, int chunks, bool forward) {
  const int in_group = k % (group * chunks);
  const int chunk = in_group / group;
  const int micro_batch = k / (group * chunks) * group + in_group % group;
  return {.part = forward ? PartKind::kForward : PartKind::kBackward,
          .micro_batch = static_cast<std::uint16_t>(micro_batch),
          .chunk = static_cast<std::uint16_t>(forward ? chunk : chunks - 1 - chunk)};
}

int most_held(const Work& work) {  // forwards without their weight gradients
  int held = 0;
  int most = 0;
  for (const ScheduledPart& part : work) {
    if (part.part == PartKind::kForward) most = std::max(most, ++held);
    if (is_weight_backward(part.part)) --held;
  }
  return most;
}

struct Row {
  std::map<std::string, std::string> cells;
  [[nodiscard]] int number(const std::string& column) const { return std::stoi(cells.at(column)); }
};

std::vector<Row> rows_of(const std::string& file) {
  std::ifstream in(shared_path("cases/parallel/" + file));
  std::vector<Row> rows;
  std::vector<std::string> names;
  std::string line;
  while (std::getline(in, line)) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    std::vector<std::string> cells;
    std::stringstream text(line);
    std::string cell;
    while (std::getline(text, cell, ','))
      cells.push_back(cell);
    if (names.empty()) {
      names = cells;
      continue;
    }
    Row& row = rows.emplace_back();
    for (std::size_t i = 0; i < cells.size(); ++i)
      row.cells[names[i]] = cells[i];
  }
  return rows;
}

// Returns the order of a row's schedule; nothing for schedules of other libraries.
bool order_of(const Row& row, Work& work) {
  const std::string& schedule = row.cells.at("schedule");
  const int p = row.number("pp");
  const int m = row.number("microbatches");
  const int r = row.number("rank");
  if (schedule == "GPipe") {
    work = gpipe(m);
  } else if (schedule == "Megatron 1F1B") {
    work = one_forward_one_backward(p, r, m);
  } else if (schedule.rfind("Megatron interleaved", 0) == 0) {
    work = interleaved_1f1b(p, row.number("chunks_per_rank"), r, m, p);
  } else {
    return false;
  }
  return true;
}

}  // namespace

TEST_SUITE("golden") {
  TEST_CASE("recorded orders and activations in flight of Megatron and GPipe come out") {
    const std::vector<Row> orders = rows_of("pipeline-orders.csv");
    if (orders.empty()) {
      MESSAGE("skipped: no recorded orders");
      return;
    }
    int compared = 0;
    for (const Row& row : orders) {
      Work work;
      if (!order_of(row, work)) continue;
      CHECK(order_text(work, row.number("chunks_per_rank") > 1) == row.cells.at("order"));
      ++compared;
    }
    for (const Row& row : rows_of("pipeline-warmup.csv")) {
      Work work;
      if (!order_of(row, work)) continue;
      CHECK(most_in_flight(work) == row.number("peak_in_flight_chunk_forwards"));
      ++compared;
    }
    CHECK(compared > 300);
  }
}

TEST_SUITE("property") {
  TEST_CASE("1F1B is what the rule of each stage leads to") {
    for (int p = 1; p <= 7; ++p) {
      for (int m = 1; m <= 12; ++m) {
        for (int s = 0; s < p; ++s) {
          CAPTURE(p);
          CAPTURE(m);
          CAPTURE(s);
          CHECK(order_text(one_forward_one_backward(p, s, m), false) == greedy_1f1b(p, s, m));
        }
      }
    }
  }

  TEST_CASE("interleaving follows the index arithmetic of its groups and never waits in a circle") {
    std::mt19937 random(17);
    const auto any = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    for (int trial = 0; trial < 60; ++trial) {
      const int p = any(2, 6);
      const int v = any(2, 4);
      const int group = p + any(0, 2);
      const int m = group * any(1, 4);
      CAPTURE(p);
      CAPTURE(v);
      CAPTURE(group);
      CAPTURE(m);
      std::vector<Work> ranks;
      for (int r = 0; r < p; ++r) {
        const Work work = interleaved_1f1b(p, v, r, m, group);
        const int under_way = std::min(m * v, 2 * (p - r - 1) + (v - 1) * group);
        int forwards = 0;
        int backwards = 0;
        for (const ScheduledPart& part : work) {
          const bool forward = part.part == PartKind::kForward;
          if (forward) {
            CHECK(forwards - backwards <= under_way);
          } else {
            CHECK((forwards - backwards == under_way + 1 || forwards == m * v));
          }
          CHECK(part == kth(forward ? forwards : backwards, group, v, forward));
          ++(forward ? forwards : backwards);
        }
        CHECK(forwards == m * v);
        CHECK(backwards == m * v);
        CHECK(most_in_flight(work) == std::min(under_way + 1, m * v));
        ranks.push_back(work);
      }
      CHECK(run_clocked(ranks, chunk_places(p, v, false)).runs);
    }
  }

  TEST_CASE("what is left of the last group must reach every stage") {
    for (int p = 2; p <= 5; ++p) {
      for (int m = 1; m <= 14; ++m) {
        if (!can_interleave(p, m, p)) {
          CHECK((m < p || (m % p != 0 && m % p < p)));
          continue;
        }
        std::vector<Work> ranks;
        for (int r = 0; r < p; ++r)
          ranks.push_back(interleaved_1f1b(p, 2, r, m, p));
        CHECK(run_clocked(ranks, chunk_places(p, 2, false)).runs);
      }
    }
  }
}

TEST_SUITE("paper") {
  // Qi et al. 2023, table 2 with F = B = W = 1: ZB-H1 has a bubble of (p - 1)(F + B - W) and keeps
  // p micro-batches on every stage.
  TEST_CASE("ZB-H1 ends at 3 m + p - 1 and keeps p micro-batches on every stage") {
    for (int p = 1; p <= 8; ++p) {
      for (int m = p; m <= 20; ++m) {
        CAPTURE(p);
        CAPTURE(m);
        std::vector<Work> ranks;
        for (int r = 0; r < p; ++r) {
          ranks.push_back(zero_bubble_h1(p, r, m));
          CHECK(most_held(ranks.back()) == p);
        }
        const Clocked clocked = run_clocked(ranks, chunk_places(p, 1, false));
        REQUIRE(clocked.runs);
        CHECK(clocked.end == 3 * m + p - 1);
      }
    }
  }

  // The same paper, section 6: no idle time where all three parts take as long, with the activation
  // memory of 1F1B, 2 p chunks of half a stage.
  TEST_CASE("ZBV leaves no stage idle and keeps 2 p chunks") {
    for (int p = 1; p <= 8; ++p) {
      for (int m = 2 * p - 1; m <= 2 * p + 12; ++m) {
        CAPTURE(p);
        CAPTURE(m);
        std::vector<Work> ranks;
        for (int r = 0; r < p; ++r) {
          ranks.push_back(zero_bubble_v(p, r, m));
          CHECK(most_held(ranks.back()) <= 2 * p);
        }
        const Clocked clocked = run_clocked(ranks, chunk_places(p, 2, true));
        REQUIRE(clocked.runs);
        for (const std::int64_t idle : clocked.idle)
          CHECK(idle == 0);
      }
    }
  }

  TEST_CASE("fewer micro-batches than fill the pipeline run, too") {
    for (int p = 2; p <= 6; ++p) {
      for (int m = 1; m < 2 * p; ++m) {
        std::vector<Work> h1;
        std::vector<Work> v;
        for (int r = 0; r < p; ++r) {
          h1.push_back(zero_bubble_h1(p, r, m));
          v.push_back(zero_bubble_v(p, r, m));
          CHECK(h1.back().size() == static_cast<std::size_t>(3 * m));
          CHECK(v.back().size() == static_cast<std::size_t>(6 * m));
        }
        CHECK(run_clocked(h1, chunk_places(p, 1, false)).runs);
        CHECK(run_clocked(v, chunk_places(p, 2, true)).runs);
      }
    }
  }
}

}  // namespace tidemark::pipeline_schedule_test
