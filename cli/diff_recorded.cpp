// Two recordings of an allocator at their peaks: what the simulation says against what a GPU did.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "cli/diff.hpp"
#include "cli/wording.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "tidemark/version.hpp"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kIndent = 2;

// Allocations of one label and one size.
struct Alike {
  std::string label;
  std::int64_t bytes = 0;  // each
  std::int64_t count = 0;
  [[nodiscard]] std::int64_t sum() const { return bytes * count; }
};

std::vector<Alike> group_alike(const RecordedPeak& peak, const std::vector<std::size_t>& which) {
  std::map<std::pair<std::string, std::int64_t>, std::int64_t> counts;
  for (const std::size_t i : which)
    ++counts[{peak.live[i].label, peak.live[i].bytes}];
  std::vector<Alike> groups;
  for (const auto& [key, count] : counts)
    groups.push_back({key.first, key.second, count});
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Alike& x, const Alike& y) { return x.sum() > y.sum(); });
  return groups;
}

// Groups left on both sides that come equally often, the one a whole multiple of the other's size:
// perhaps the same tensors in another type or shape.
struct Multiple {
  Alike a;
  Alike b;
  [[nodiscard]] std::string ratio() const {
    const std::int64_t more = std::max(a.bytes, b.bytes) / std::min(a.bytes, b.bytes);
    return b.bytes > a.bytes ? fmt::format("{} times", more) : fmt::format("1/{}", more);
  }
};

// From the largest on, each group once. Small single allocations are multiples by chance.
std::vector<Multiple> multiples_of(const std::vector<Alike>& of_a, const std::vector<Alike>& of_b,
                                   std::int64_t peak) {
  constexpr std::int64_t kMostTimes = 8;
  constexpr std::int64_t kSmall = 200;  // part of the peak
  std::vector<Multiple> found;
  std::vector<char> taken(of_b.size(), 0);
  for (const Alike& a : of_a) {
    if (a.bytes == 0 || (a.count == 1 && a.bytes < peak / kSmall)) continue;
    for (std::size_t j = 0; j < of_b.size(); ++j) {
      const Alike& b = of_b[j];
      if (taken[j] != 0 || b.count != a.count || b.bytes == 0) continue;
      const std::int64_t large = std::max(a.bytes, b.bytes);
      const std::int64_t small = std::min(a.bytes, b.bytes);
      if (large % small != 0 || large / small > kMostTimes) continue;
      found.push_back({a, b});
      taken[j] = 1;
      break;
    }
  }
  return found;
}

class RecordedDifference {
 public:
  RecordedDifference(const RecordedSide& a, const RecordedSide& b)
      : a_(a), b_(b), match_(match_allocations(a.peak, b.peak)) {
    const auto sums = [&](const auto& pairs) {
      std::pair<std::int64_t, std::int64_t> sum{};
      for (const auto& [i, j] : pairs) {
        sum.first += a.peak.live[i].bytes;
        sum.second += b.peak.live[j].bytes;
      }
      return sum;
    };
    const auto sum_of = [](const RecordedPeak& peak, const std::vector<std::size_t>& which) {
      std::int64_t sum = 0;
      for (const std::size_t i : which)
        sum += peak.live[i].bytes;
      return sum;
    };
    const auto [ordered_a, ordered_b] = sums(match_.in_order);
    const auto [other_a, other_b] = sums(match_.elsewhere);
    terms_ = {{"the same, in order", ordered_a, ordered_b},
              {"the same, in another order", other_a, other_b},
              {"only in A", sum_of(a.peak, match_.only_a), 0},
              {"only in B", 0, sum_of(b.peak, match_.only_b)}};
    const std::int64_t rounding_a = a.peak.rounding();
    const std::int64_t rounding_b = b.peak.rounding();
    above_ = {{"rounding to 512 bytes", rounding_a, rounding_b},
              {"cached, split or waiting", a.peak.reserved - a.peak.bytes - rounding_a,
               b.peak.reserved - b.peak.bytes - rounding_b},
              {"reserved at other times", a.peak.most_reserved - a.peak.reserved,
               b.peak.most_reserved - b.peak.reserved}};
  }
  [[nodiscard]] std::string text(std::size_t top, bool colour) const;
  [[nodiscard]] Json json() const;

 private:
  [[nodiscard]] TermPair live() const { return {"live at the peak", a_.peak.bytes, b_.peak.bytes}; }
  [[nodiscard]] TermPair reserved() const {
    return {"reserved", a_.peak.most_reserved, b_.peak.most_reserved};
  }
  // Of the live bytes of both, what is in pairs.
  [[nodiscard]] double explained() const {
    const std::int64_t matched = terms_[0].a + terms_[1].a + terms_[0].b + terms_[1].b;
    const std::int64_t all = a_.peak.bytes + b_.peak.bytes;
    return all == 0 ? 1 : static_cast<double>(matched) / static_cast<double>(all);
  }
  [[nodiscard]] std::vector<Multiple> multiples() const {
    return multiples_of(group_alike(a_.peak, match_.only_a), group_alike(b_.peak, match_.only_b),
                        std::max(a_.peak.bytes, b_.peak.bytes));
  }
  [[nodiscard]] std::string perhaps(std::size_t top, bool colour) const;
  [[nodiscard]] std::string only(const RecordedSide& side, const std::vector<std::size_t>& which,
                                 const std::string& title, std::size_t top, bool colour) const;

  const RecordedSide& a_;
  const RecordedSide& b_;
  AllocationMatch match_;
  std::vector<TermPair> terms_;  // add up to what is live
  std::vector<TermPair> above_;  // from there to what is reserved
};

std::string RecordedDifference::only(const RecordedSide& side,
                                     const std::vector<std::size_t>& which,
                                     const std::string& title, std::size_t top, bool colour) const {
  if (which.empty()) return {};
  const BytesColumn unit(side.peak.bytes);
  Table table({{"bytes", Align::kRight}, {"", Align::kRight}, {"", Align::kRight}, {""}}, kIndent);
  const std::vector<Alike> groups = group_alike(side.peak, which);
  std::int64_t sum = 0;
  std::int64_t shown = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Alike& group = groups[g];
    sum += group.sum();
    if (g >= top) continue;
    shown += group.sum();
    table.add_row({{grouped(group.sum())},
                   {unit.text(group.sum())},
                   {fmt::format("{} x {}", group.count, format_bytes(Bytes(group.bytes)))},
                   {group.label.empty() ? "(no stack)" : group.label}});
  }
  if (shown < sum) {
    table.add_row({{grouped(sum - shown)}, {unit.text(sum - shown)}, {""}, {"all others"}});
  }
  table.add_row({{grouped(sum), -1, true}, {unit.text(sum), -1, true}, {""}, {"sum", -1, true}});
  return '\n' + bold(title, colour) + '\n' + table.text(colour);
}

std::string RecordedDifference::perhaps(std::size_t top, bool colour) const {
  const std::vector<Multiple> pairs = multiples();
  if (pairs.empty()) return {};
  Table table({{"A", Align::kRight}, {""}, {"B", Align::kRight}, {""}, {"B / A"}}, kIndent);
  const auto size = [](const Alike& group) {
    return fmt::format("{} x {}", group.count, format_bytes(Bytes(group.bytes)));
  };
  for (std::size_t i = 0; i < std::min(top, pairs.size()); ++i) {
    const auto& [a, b] = pairs[i];
    table.add_row({{size(a)}, {a.label}, {size(b)}, {b.label}, {pairs[i].ratio()}});
  }
  return '\n' +
         bold("Of those, equally many in whole multiples: perhaps another type or shape", colour) +
         '\n' + table.text(colour);
}

std::string RecordedDifference::text(std::size_t top, bool colour) const {
  std::string text;
  for (const RecordedSide* side : {&a_, &b_}) {
    const RecordedPeak& peak = side->peak;
    text += fmt::format(
        "{}  {} {}: {} allocations, {} of them live at the peak{}{}\n",
        bold(side == &a_ ? "A" : "B", colour), side->simulated ? "simulation" : "snapshot",
        side->name, grouped(static_cast<std::int64_t>(peak.allocations)),
        grouped(static_cast<std::int64_t>(peak.live.size())),
        peak.unordered > 0 ? fmt::format(" ({} from before the recording)",
                                         grouped(static_cast<std::int64_t>(peak.unordered)))
                           : "",
        peak.out_of_memory ? paint("; runs out of memory", kBad, colour) : "");
  }
  text += fmt::format(
      "\n{} of what is live at the two peaks is the same: {} allocations in the order in which\n"
      "they were made, {} in another, of the same size rounded to 512 bytes.\n\n",
      percent(explained()), grouped(static_cast<std::int64_t>(match_.in_order.size())),
      grouped(static_cast<std::int64_t>(match_.elsewhere.size())));

  const BytesColumn unit(std::max(a_.peak.most_reserved, b_.peak.most_reserved));
  Table table({{""},
               {"A", Align::kRight},
               {"B", Align::kRight},
               {"B - A", Align::kRight},
               {"bytes", Align::kRight}},
              kIndent);
  const auto signed_text = [](std::int64_t value, const std::string& words) {
    return value == 0 ? std::string("=") : (value > 0 ? "+" : "-") + words;
  };
  const auto row = [&](const TermPair& term, bool strong, const std::string& prefix) {
    const std::int64_t d = term.difference();
    table.add_row({{prefix + term.name, -1, strong},
                   {unit.text(term.a), -1, strong},
                   {unit.text(term.b), -1, strong},
                   {signed_text(d, unit.text(std::abs(d))), -1, strong},
                   {d == 0 ? "" : signed_text(d, grouped(std::abs(d))), -1, strong}});
  };
  for (const TermPair& term : terms_)
    row(term, false, "");
  row(live(), true, "");
  for (const TermPair& term : above_)
    row(term, false, "+ ");
  row(reserved(), true, "");
  text += table.text(colour);
  const std::int64_t context = std::max(a_.context, b_.context);
  if (context > 0) {
    text += fmt::format(
        "  The CUDA context comes on top: {} in the simulation; a snapshot does not show it.\n",
        format_bytes(Bytes(context)));
  }
  text += only(a_, match_.only_a, "Live only in A", top, colour);
  text += only(b_, match_.only_b, "Live only in B", top, colour);
  text += perhaps(top, colour);
  return text;
}

Json RecordedDifference::json() const {
  const auto side = [](const RecordedSide& s) {
    return Json{{"name", s.name},
                {"kind", s.simulated ? "simulation" : "snapshot"},
                {"allocations", s.peak.allocations},
                {"live_allocations", s.peak.live.size()},
                {"from_before", s.peak.unordered},
                {"out_of_memory", s.peak.out_of_memory},
                {"context", s.simulated ? Json(s.context) : Json(nullptr)}};
  };
  const auto term = [](const TermPair& t) {
    return Json{{"name", t.name}, {"a", t.a}, {"b", t.b}, {"difference", t.difference()}};
  };
  const auto list = [&](const RecordedPeak& peak, const std::vector<std::size_t>& which) {
    Json groups = Json::array();
    for (const Alike& group : group_alike(peak, which)) {
      groups.push_back({{"label", group.label}, {"bytes", group.bytes}, {"count", group.count}});
    }
    return groups;
  };
  Json document{{"tidemark", kVersion}, {"a", side(a_)}, {"b", side(b_)}};
  document["explained"] = explained();
  document["matched"] = {{"in_order", match_.in_order.size()},
                         {"in_another_order", match_.elsewhere.size()}};
  document["live"] = term(live());
  document["reserved"] = term(reserved());
  document["terms"] = Json::array();
  for (const TermPair& t : terms_)
    document["terms"].push_back(term(t));
  document["above"] = Json::array();
  for (const TermPair& t : above_)
    document["above"].push_back(term(t));
  document["only_a"] = list(a_.peak, match_.only_a);
  document["only_b"] = list(b_.peak, match_.only_b);
  document["multiples"] = Json::array();
  for (const auto& [x, y] : multiples()) {
    document["multiples"].push_back({{"a", x.label},
                                     {"b", y.label},
                                     {"count", x.count},
                                     {"bytes_a", x.bytes},
                                     {"bytes_b", y.bytes}});
  }
  return document;
}

}  // namespace

std::string recorded_difference_text(const RecordedSide& a, const RecordedSide& b, std::size_t top,
                                     bool colour) {
  return RecordedDifference(a, b).text(top, colour);
}

Json recorded_difference_json(const RecordedSide& a, const RecordedSide& b) {
  return RecordedDifference(a, b).json();
}

}  // namespace tidemark
