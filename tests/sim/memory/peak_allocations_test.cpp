// Peaks of recordings, and the matches between their allocations.
#include "sim/memory/trace/peak_allocations.hpp"

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "tests/sim/memory/snapshot_file.hpp"

namespace tidemark::peak_allocations_test {

namespace {

std::size_t longest(const std::vector<Bytes>& a, const std::vector<Bytes>& b) {
  std::vector<std::vector<std::size_t>> best(a.size() + 1,
                                             std::vector<std::size_t>(b.size() + 1, 0));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) {
      best[i + 1][j + 1] = a[i] == b[j] ? best[i][j] + 1 : std::max(best[i][j + 1], best[i + 1][j]);
    }
  }
  return best[a.size()][b.size()];
}

RecordedPeak peak_of(const std::vector<Bytes>& sizes, std::size_t unordered) {
  RecordedPeak peak{.unordered = unordered};
  for (const Bytes bytes : sizes) {
    peak.live.push_back({.bytes = bytes});
    peak.bytes += bytes;
  }
  return peak;
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("common subsequences are as long as can be and ascend on both sides") {
    std::mt19937 random(11);
    for (int round = 0; round < 400; ++round) {
      std::vector<Bytes> a(random() % 30);
      std::vector<Bytes> b(random() % 30);
      const auto values = 1 + random() % 8;
      for (auto& value : a)
        value = Bytes(static_cast<std::int64_t>(random() % values));
      for (auto& value : b)
        value = Bytes(static_cast<std::int64_t>(random() % values));
      const auto pairs = common_subsequence(a, b);
      CHECK(pairs.size() == longest(a, b));
      for (std::size_t p = 0; p < pairs.size(); ++p) {
        CHECK(a[pairs[p].first] == b[pairs[p].second]);
        if (p == 0) continue;
        CHECK(pairs[p - 1].first < pairs[p].first);
        CHECK(pairs[p - 1].second < pairs[p].second);
      }
    }
  }

  TEST_CASE("a match uses every allocation once, and as many of each size as both have") {
    std::mt19937 random(12);
    for (int round = 0; round < 200; ++round) {
      std::vector<Bytes> a(random() % 40);
      std::vector<Bytes> b(random() % 40);
      for (auto* side : {&a, &b}) {
        for (auto& bytes : *side)
          bytes = Bytes(static_cast<std::int64_t>(random() % 3000));
      }
      const RecordedPeak pa = peak_of(a, a.size() / 4);
      const RecordedPeak pb = peak_of(b, b.size() / 3);
      const AllocationMatch match = match_allocations(pa, pb);
      std::set<std::size_t> used_a(match.only_a.begin(), match.only_a.end());
      std::set<std::size_t> used_b(match.only_b.begin(), match.only_b.end());
      for (const AllocationPair& pair : match.pairs) {
        CHECK(rounded_request(a[pair.a]) == rounded_request(b[pair.b]));
        CHECK((pair.how == MatchedBy::kOrder || pair.how == MatchedBy::kSize));
        used_a.insert(pair.a);
        used_b.insert(pair.b);
      }
      const std::size_t pairs = match.pairs.size();
      CHECK(used_a.size() == a.size());
      CHECK(used_b.size() == b.size());
      CHECK(pairs + match.only_a.size() == a.size());
      CHECK(pairs + match.only_b.size() == b.size());
      for (const std::size_t i : match.only_a) {
        for (const std::size_t j : match.only_b)
          CHECK(rounded_request(a[i]) != rounded_request(b[j]));
      }
    }
  }
}

namespace {

// Returns random allocations with names of which some are alike; also without any.
RecordedPeak named_peak(std::mt19937& random) {
  RecordedPeak peak;
  const auto pick = [&](std::initializer_list<const char*> words) {
    return std::string(*(words.begin() + random() % words.size()));
  };
  const std::size_t count = random() % 40;
  for (std::size_t i = 0; i < count; ++i) {
    peak.live.push_back({.bytes = Bytes(static_cast<std::int64_t>(1 + random() % 2000)),
                         .label = pick({"", "forward model.py:1", "forward model.py:2"}),
                         .names = {.phase = pick({"", "forward", "backward"}),
                                   .op = pick({"", "linear", "gelu"}),
                                   .layer = pick({"", "", "h.0", "h.1"}),
                                   .tensor = pick({"", "", "weight"})}});
  }
  return peak;
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("every pair has in common what its rule says, and everything is used once") {
    std::mt19937 random(13);
    std::set<MatchedBy> seen;
    for (int round = 0; round < 300; ++round) {
      const RecordedPeak a = named_peak(random);
      const RecordedPeak b = named_peak(random);
      const AllocationMatch match = match_allocations(a, b);
      std::multiset<std::size_t> used_a(match.only_a.begin(), match.only_a.end());
      std::multiset<std::size_t> used_b(match.only_b.begin(), match.only_b.end());
      for (const AllocationPair& pair : match.pairs) {
        const LiveAllocation& x = a.live[pair.a];
        const LiveAllocation& y = b.live[pair.b];
        seen.insert(pair.how);
        used_a.insert(pair.a);
        used_b.insert(pair.b);
        if (same_size(pair.how)) CHECK(rounded_request(x.bytes) == rounded_request(y.bytes));
        switch (pair.how) {
          case MatchedBy::kTensor:
          case MatchedBy::kTensorOnly:
            CHECK(x.names == y.names);
            CHECK(x.names.tensor == "weight");
            break;
          case MatchedBy::kLayer:
          case MatchedBy::kLayerOnly:
            CHECK(x.names.layer == y.names.layer);
            CHECK_FALSE(x.names.layer.empty());
            break;
          case MatchedBy::kLine:
          case MatchedBy::kLineOnly:
            CHECK(x.label == y.label);
            CHECK_FALSE(x.label.empty());
            break;
          case MatchedBy::kOperator:
          case MatchedBy::kOperatorOnly:
            CHECK(x.names.op == y.names.op);
            CHECK(x.names.phase == y.names.phase);
            CHECK_FALSE(x.names.op.empty());
            break;
          case MatchedBy::kOrder:
          case MatchedBy::kSize:
            break;
        }
      }
      for (std::size_t i = 0; i < a.live.size(); ++i)
        CHECK(used_a.count(i) == 1);
      for (std::size_t j = 0; j < b.live.size(); ++j)
        CHECK(used_b.count(j) == 1);
      for (const std::size_t i : match.only_a) {
        for (const std::size_t j : match.only_b)
          CHECK(rounded_request(a.live[i].bytes) != rounded_request(b.live[j].bytes));
      }
    }
    CHECK(seen.size() == kMatchedBys);
  }
}

TEST_SUITE("unit") {
  TEST_CASE("the peak of a snapshot has what is live then, with the user's frame as its name") {
    const std::vector<SnapshotFrame> stack{{"empty", "/usr/lib/torch/functional.py", 7},
                                           {"forward", "/home/me/model.py", 42},
                                           {"main", "/home/me/train.py", 3}};
    // 0x100 is live before the recording: only its free is known. 0x500 is too, and stays; 0x900 is
    // freed before the peak.
    const SnapshotFile file({{{"segment_alloc", 0x1000, 2048},
                              {"alloc", 0x900, 700, 0, stack},
                              {"free_requested", 0x900, 700},
                              {"free_completed", 0x900, 700},
                              {"segment_alloc", 0x2000, 4096},
                              {"alloc", 0x2000, 3000, 0, stack},
                              {"alloc", 0x1000, 600, 0, {{"workspace", "??", 0}}},
                              {"free_requested", 0x100, 512},
                              {"free_completed", 0x100, 512},
                              {"free_requested", 0x2000, 3000},
                              {"free_completed", 0x2000, 3000},
                              {"oom", 10, 99999}}},
                            {{0x100, {{1024, "inactive", 0}, {1024, "active_allocated", 1000}}},
                             {0x1000, {{1024, "active_allocated", 600}, {1024, "inactive", 0}}},
                             {0x2000, {{4096, "inactive", 0}}}});
    const RecordedPeak peak = peak_of_snapshot(file.path(), std::nullopt);
    CHECK(peak.unordered == 2);
    REQUIRE(peak.live.size() == 4);
    CHECK(peak.live[0].bytes.count == 512);
    CHECK(peak.live[1].bytes.count == 1000);  // at 0x500
    CHECK(peak.live[2].label == "forward model.py:42");
    CHECK(peak.live[3].label == "workspace");
    CHECK(peak.bytes.count == 512 + 1000 + 3000 + 600);
    // 512 + 1024 + 3072 + 1024
    CHECK(peak.rounding() == Bytes(5632 - 5112));
    CHECK(peak.reserved.count == 2048 + 2048 + 4096);
    CHECK(peak.most_reserved.count == 8192);
    CHECK(peak.allocations == 5);
    CHECK(peak.out_of_memory);
  }
}

}  // namespace tidemark::peak_allocations_test
