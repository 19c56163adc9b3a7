// Journals that a disk, a network or another version has damaged.
#include "scenarios/studies/journal/sweep_journal.hpp"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "graph/core/errors.hpp"
#include "scenarios/results/result_document.hpp"
#include "scenarios/studies/journal/journal_lines.hpp"
#include "scenarios/studies/simulate_points.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/long_tests.hpp"

namespace tidemark::sweep_journal_test {

namespace {

constexpr std::size_t kPoints = 6;

// A finished sweep of six points and its journal.
class Sweep {
 public:
  Sweep() : folder_("journal") {
    const Value document = parse_document(
        "{model: {preset: gpt, layers: 2, width: 64, heads: 4, vocab: 512, sequence: 32}, "
        "hardware: a100-sxm-80gb, training: {sequence: 32}, sweep: {matrix: "
        "{training.micro_batch: [1, 2, 4], policies: [[], [checkpoint_every: {period: 1}]]}}}",
        "sweep.yaml");
    identity_ = sweep_identity(document, environment(), {}, {});
    points_ = simulate_points(document, environment(), 1, {.smallest_capacity = false}, {}, {});
    {
      SweepJournal journal(folder(), identity_, {}, {});
      for (std::size_t i = 0; i < kPoints; ++i)
        journal.add(i, points_[i]);
    }
    std::ifstream file(path(), std::ios::binary);
    text_.assign(std::istreambuf_iterator<char>(file), {});
    for (const auto& [i, point] : read().known)
      whole_.push_back(json_of(point));
  }

  [[nodiscard]] const std::string& text() const { return text_; }
  void write(const std::string& text) const {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << text;
  }
  [[nodiscard]] JournalPoints read() const { return journal_points(folder(), identity_); }
  [[nodiscard]] MergedSweep merge() const { return merge_journals(folder()); }
  [[nodiscard]] bool is_whole(std::size_t i, const PointResult& point) const {
    return json_of(point) == whole_[i];
  }

 private:
  static std::string json_of(const PointResult& point) {
    return result_document(std::span(&point, 1)).at("points").at(0).dump();
  }
  [[nodiscard]] std::string folder() const { return folder_.path(""); }
  [[nodiscard]] std::string path() const { return folder_.path("points.jsonl"); }

  ScenarioFolder folder_;
  SweepIdentity identity_;
  std::vector<PointResult> points_;
  std::string text_;
  std::vector<std::string> whole_;
};

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("no line of a journal in which a bit has flipped is taken over, and no other is lost") {
    const Sweep sweep;
    const std::string& text = sweep.text();
    std::vector<std::size_t> places;  // bits of the file
    std::mt19937_64 random(23);
    std::uniform_int_distribution<std::size_t> any(0, 8 * text.size() - 1);
    const int drawn = test::runs_long_tests() ? 1000 : 100;
    for (int i = 0; i < drawn; ++i)
      places.push_back(any(random));
    // Each bit of each line's end, and some of each line's beginning.
    for (std::size_t end = text.find('\n'); end != std::string::npos;
         end = text.find('\n', end + 1)) {
      for (std::size_t bit = 8 * end; bit < 8 * std::min(end + 45, text.size()); ++bit) {
        if (bit < 8 * (end + 1) || bit % 5 == 0) places.push_back(bit);
      }
    }
    REQUIRE(places.size() > 300U + static_cast<std::size_t>(drawn));
    for (const std::size_t place : places) {
      CAPTURE(place);
      std::string damaged = text;
      char& byte = damaged[place / 8];
      byte = static_cast<char>(byte ^ (1 << (place % 8)));
      sweep.write(damaged);
      // The header is line 0, point 0 is line 1.
      const auto line = static_cast<std::size_t>(
          std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(place / 8), '\n'));
      const JournalPoints read = sweep.read();
      for (std::size_t i = 0; i < kPoints; ++i) {
        const auto known = read.known.find(i);
        CHECK((known != read.known.end()) == (i + 1 != line));
        if (known != read.known.end()) CHECK(sweep.is_whole(i, known->second));
      }
      // A last line without its end looks like that of a sweep that was killed.
      const bool cut_off = place / 8 + 1 == text.size();
      CHECK(read.damage.size() == (cut_off ? 0 : 1));
      const std::string refusal = error_of([&] { static_cast<void>(sweep.merge()); });
      CHECK(refusal.find(cut_off ? "are missing" : "damaged") != std::string::npos);
    }
    sweep.write(text);
    CHECK(sweep.read().damage.empty());
    CHECK(sweep.merge().points.size() == kPoints);
  }
}

TEST_SUITE("unit") {
  TEST_CASE("the damage of a journal is counted, and lines of an older version are not taken") {
    const Sweep sweep;
    const std::vector<std::string> lines = [&] {
      std::vector<std::string> found;
      for (std::size_t begin = 0; begin < sweep.text().size();) {
        const std::size_t end = sweep.text().find('\n', begin);
        found.push_back(sweep.text().substr(begin, end - begin));
        begin = end + 1;
      }
      return found;
    }();
    REQUIRE(lines.size() == kPoints + 1);
    const auto join = [](const std::vector<std::string>& all) {
      std::string text;
      for (const std::string& line : all)
        text += line + '\n';
      return text;
    };
    std::vector<std::string> some = lines;
    some[2].replace(some[2].find("\"key\":\"") + 7, 1, "z");
    some[5] = "nothing";
    sweep.write(join(some));
    REQUIRE(sweep.read().damage.size() == 1);
    CHECK(sweep.read().damage[0].find("2 lines of ") == 0);
    CHECK(sweep.read().damage[0].find("are damaged (the first is line 3)") != std::string::npos);
    const std::string refusal = error_of([&] { static_cast<void>(sweep.merge()); });
    CHECK(refusal.find("2 of 6 points are missing") != std::string::npos);

    // The point of a damaged line that another line has: merged, and named.
    some = lines;
    some.push_back(some[3]);
    some[3][100] = '~';
    sweep.write(join(some));
    CHECK(sweep.merge().points.size() == kPoints);
    REQUIRE(sweep.merge().damage.size() == 1);
    CHECK(sweep.merge().damage[0].find("line 4 of ") == 0);

    // A version without checksums has written these lines.
    some = lines;
    for (std::string& line : some) {
      const std::size_t checksum = line.find("\"checksum\"");
      REQUIRE(checksum == 1);
      line.erase(1, line.find(',') + 1 - checksum);
    }
    sweep.write(join(some));
    const JournalPoints old = sweep.read();
    CHECK(old.known.empty());
    REQUIRE(old.damage.size() == 1);
    CHECK(old.damage[0].find("7 lines of ") == 0);
    CHECK(old.damage[0].find("no checksum") != std::string::npos);
    CHECK(error_of([&] { static_cast<void>(sweep.merge()); }).find("--resume") !=
          std::string::npos);
  }
}

}  // namespace tidemark::sweep_journal_test
