#include "policies/rewrite/pipeline_table.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"
#include "graph/core/paths.hpp"
#include "hwprofiles/measured/csv_table.hpp"

namespace tidemark {
namespace pipeline_table_detail {
namespace {

constexpr int kMostNumber = 60000;  // fits the 16 bits of a scheduled part

bool read_number(std::string_view text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0 &&
         number <= kMostNumber;
}

// Reads "F3" or "F3.1".
bool read_part(std::string_view word, ScheduledPart& part) {
  if (word.size() < 2) return false;
  const std::size_t at = std::string_view("FBW").find(word.front());
  if (at == std::string_view::npos) return false;
  constexpr PartKind kKinds[] = {PartKind::kForward, PartKind::kBackward,
                                 PartKind::kBackwardWeight};
  const std::size_t dot = word.find('.');
  int micro_batch = 0;
  int chunk = 0;
  if (!read_number(word.substr(1, dot == std::string_view::npos ? dot : dot - 1), micro_batch))
    return false;
  if (dot != std::string_view::npos && !read_number(word.substr(dot + 1), chunk)) return false;
  part = {.part = kKinds[at],
          .micro_batch = static_cast<std::uint16_t>(micro_batch),
          .chunk = static_cast<std::uint16_t>(chunk)};
  return true;
}

class TableReader {
 public:
  TableReader(std::string file, int ranks) : file_(std::move(file)), ranks_(ranks) {}

  PipelineTable read(std::string_view text) {
    table_.by_rank.resize(static_cast<std::size_t>(ranks_));
    const CsvTable rows = parse_csv(text, file_);
    if (!rows.has("rank") || !rows.has("order")) {
      line_ = 1;
      fail("a schedule's table needs the columns rank and order");
    }
    rank_column_ = rows.column("rank");
    order_column_ = rows.column("order");
    for (const CsvRow& row : rows.rows) {
      line_ = row.line;
      read_row(row.cells);
    }
    check();
    return std::move(table_);
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw UserError({.file = file_, .line = line_, .column = 1}, {}, problem);
  }

  void read_row(const std::vector<std::string>& cells) {
    if (cells.size() <= std::max(rank_column_, order_column_))
      fail("the row ends before its columns rank and order");
    int rank = 0;
    if (!read_number(cells[rank_column_], rank) || rank >= ranks_) {
      fail(fmt::format("expected a rank of 0 to {}, found '{}'", ranks_ - 1, cells[rank_column_]));
    }
    std::vector<ScheduledPart>& work = table_.by_rank[static_cast<std::size_t>(rank)];
    if (!work.empty()) fail(fmt::format("rank {} has an order already", rank));
    std::stringstream words(cells[order_column_]);
    std::string word;
    while (words >> word) {
      ScheduledPart part;
      if (!read_part(word, part)) {
        fail(fmt::format("expected parts such as F0, B0, W0 or F0.1, found '{}'", word));
      }
      table_.chunks = std::max(table_.chunks, part.chunk + 1);
      work.push_back(part);
    }
    check_row(rank, work);
  }

  // Each micro-batch goes forward and then backward once; weight gradients follow, if there are
  // any, in the order of the backwards.
  void check_row(int rank, const std::vector<ScheduledPart>& work) const {
    std::map<std::pair<int, int>, int> seen;  // by chunk and micro-batch: parts so far
    const bool splits = std::any_of(work.begin(), work.end(), [](const ScheduledPart& part) {
      return part.part == PartKind::kBackwardWeight;
    });
    for (const ScheduledPart& part : work) {
      int& parts = seen[{part.chunk, part.micro_batch}];
      const int wanted = part.part == PartKind::kForward    ? 0
                         : part.part == PartKind::kBackward ? 1
                                                            : 2;
      if (parts != wanted) {
        fail(
            fmt::format("rank {} runs micro-batch {} of chunk {} out of turn: its forward, then "
                        "its backward, then its weight gradients, once each",
                        rank, part.micro_batch, part.chunk));
      }
      ++parts;
    }
    for (const auto& [key, parts] : seen) {
      if (parts == (splits ? 3 : 2)) continue;
      fail(fmt::format("rank {} leaves micro-batch {} of chunk {} without its {}", rank, key.second,
                       key.first, parts == 1 ? "backward" : "weight gradients"));
    }
  }

  // Returns the micro-batches of a chunk in the order of one kind of part.
  [[nodiscard]] std::vector<int> order_of(int rank, int chunk, PartKind kind) const {
    std::vector<int> order;
    for (const ScheduledPart& part : table_.by_rank[static_cast<std::size_t>(rank)]) {
      if (part.chunk == chunk && part.part == kind) order.push_back(part.micro_batch);
    }
    return order;
  }

  // All ranks send and receive the micro-batches in one order.
  void check() const {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (table_.by_rank[static_cast<std::size_t>(rank)].empty())
        fail(fmt::format("rank {} has no row", rank));
      for (int chunk = 0; chunk < table_.chunks; ++chunk) {
        for (const PartKind kind : {PartKind::kForward, PartKind::kBackward}) {
          if (order_of(rank, chunk, kind) == order_of(0, 0, kind)) continue;
          fail(
              fmt::format("rank {}, chunk {} runs the {}s in another order of micro-batches than "
                          "rank 0, chunk 0; what one sends the other receives in turn",
                          rank, chunk, name_of(kind)));
        }
        const std::vector<int> weights = order_of(rank, chunk, PartKind::kBackwardWeight);
        if (weights.empty() != order_of(0, 0, PartKind::kBackwardWeight).empty()) {
          fail(fmt::format(
              "rank {}, chunk {} takes the weight gradients {}, unlike rank 0, chunk 0; "
              "all do so in one way",
              rank, chunk, weights.empty() ? "with its backwards" : "apart"));
        }
        if (weights.empty() || weights == order_of(rank, chunk, PartKind::kBackward)) continue;
        fail(
            fmt::format("rank {}, chunk {} takes the weight gradients in another order than the "
                        "backwards",
                        rank, chunk));
      }
    }
    std::vector<int> order = order_of(0, 0, PartKind::kForward);
    std::sort(order.begin(), order.end());
    for (std::size_t m = 0; m < order.size(); ++m) {
      if (order[m] == static_cast<int>(m)) continue;
      fail(fmt::format("micro-batch {} is missing; they are numbered from 0", m));
    }
  }

  std::string file_;
  int ranks_;
  int line_ = 0;
  std::size_t rank_column_ = 0;
  std::size_t order_column_ = 0;
  PipelineTable table_;
};

}  // namespace
}  // namespace pipeline_table_detail

PipelineTable read_pipeline_table(const std::string& file, int ranks, const Location& named_at,
                                  const std::string& path) {
  if (!is_file(file)) throw UserError(named_at, path, fmt::format("cannot read '{}'", file));
  return pipeline_table_detail::TableReader(file, ranks).read(read_text_file(file));
}

}  // namespace tidemark
