#include "cli/text/recorded_difference.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/text/recorded_groups.hpp"
#include "cli/text/wording.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "tidemark/version.hpp"

namespace tidemark {
namespace recorded_difference_detail {
namespace {

using Json = nlohmann::ordered_json;

class RecordedDifference {
 public:
  RecordedDifference(const RecordedSide& a, const RecordedSide& b)
      : a_(a), b_(b), match_(match_allocations(a.peak, b.peak)) {
    for (std::size_t h = 0; h < kMatchedBys; ++h) {
      const auto how = static_cast<MatchedBy>(h);
      Term term{{std::string(name_of(how))}};
      for (const AllocationPair& pair : match_.pairs) {
        if (pair.how != how) continue;
        term.bytes.a += a.peak.live[pair.a].bytes;
        term.bytes.b += b.peak.live[pair.b].bytes;
        ++term.count;
      }
      if (term.count == 0) continue;
      if (same_size(how)) same_ += term.bytes.a + term.bytes.b;
      terms_.push_back(std::move(term));
    }
    const auto sum_of = [](const RecordedPeak& peak, const std::vector<std::size_t>& which) {
      Bytes sum;
      for (const std::size_t i : which)
        sum += peak.live[i].bytes;
      return sum;
    };
    terms_.push_back(
        {{"only in A", sum_of(a.peak, match_.only_a), Bytes(0)}, match_.only_a.size()});
    terms_.push_back(
        {{"only in B", Bytes(0), sum_of(b.peak, match_.only_b)}, match_.only_b.size()});
    const Bytes rounding_a = a.peak.rounding();
    const Bytes rounding_b = b.peak.rounding();
    above_ = {{"rounding to 512 bytes", rounding_a, rounding_b},
              {"cached, split or waiting", a.peak.reserved - a.peak.bytes - rounding_a,
               b.peak.reserved - b.peak.bytes - rounding_b},
              {"reserved at other times", a.peak.most_reserved - a.peak.reserved,
               b.peak.most_reserved - b.peak.reserved}};
  }
  [[nodiscard]] std::string text(const DiffView& view) const;
  [[nodiscard]] Json json() const;

 private:
  struct Term {
    TermPair<Bytes> bytes;
    std::size_t count = 0;  // pairs, or allocations that are in only one of both
  };

  [[nodiscard]] TermPair<Bytes> live() const {
    return {"live at the peak", a_.peak.bytes, b_.peak.bytes};
  }
  [[nodiscard]] TermPair<Bytes> reserved() const {
    return {"reserved", a_.peak.most_reserved, b_.peak.most_reserved};
  }
  // Returns the share of the live bytes of both sides that is in pairs of one size.
  [[nodiscard]] double explained() const {
    const Bytes all = a_.peak.bytes + b_.peak.bytes;
    return all == Bytes(0) ? 1 : static_cast<double>(same_.count) / static_cast<double>(all.count);
  }
  [[nodiscard]] std::vector<Multiple> multiples() const {
    return multiples_of(group_alike(a_.peak, match_.only_a), group_alike(b_.peak, match_.only_b),
                        std::max(a_.peak.bytes, b_.peak.bytes));
  }
  [[nodiscard]] std::string matched(const DiffView& view) const;
  [[nodiscard]] std::string perhaps(const DiffView& view) const;
  [[nodiscard]] std::string only(const RecordedSide& side, const std::vector<std::size_t>& which,
                                 const std::string& title, const DiffView& view) const;

  const RecordedSide& a_;
  const RecordedSide& b_;
  AllocationMatch match_;
  Bytes same_;                          // bytes of both sides in pairs of one size
  std::vector<Term> terms_;             // terms that add up to the live bytes
  std::vector<TermPair<Bytes>> above_;  // terms from there to what is reserved
};

std::string RecordedDifference::only(const RecordedSide& side,
                                     const std::vector<std::size_t>& which,
                                     const std::string& title, const DiffView& view) const {
  if (which.empty()) return {};
  const BytesColumn unit(side.peak.bytes);
  Table table({{"bytes", Align::kRight}, {"", Align::kRight}, {"", Align::kRight}, {""}}, kIndent);
  const std::vector<Alike> groups = group_alike(side.peak, which);
  Bytes sum;
  Bytes shown;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Alike& group = groups[g];
    sum += group.sum();
    if (g >= view.top) continue;
    shown += group.sum();
    table.add_row({{grouped(group.sum().count)},
                   {unit.text(group.sum())},
                   {fmt::format("{} x {}", group.count, format_bytes(group.bytes))},
                   {group.label.empty() ? "(no stack)" : group.label}});
  }
  if (shown < sum) {
    table.add_row({{grouped((sum - shown).count)}, {unit.text(sum - shown)}, {""}, {"all others"}});
  }
  table.add_row(
      {{grouped(sum.count), -1, true}, {unit.text(sum), -1, true}, {""}, {"sum", -1, true}});
  return '\n' + bold(title, view.colour) + '\n' + table.text(view.colour, view.width);
}

std::string RecordedDifference::matched(const DiffView& view) const {
  const std::vector<MatchedAlike> groups = group_matched(a_.peak, b_.peak, match_);
  if (groups.empty()) return {};
  const auto signed_bytes = [](Bytes d) {
    if (d == Bytes(0)) return std::string("=");
    return d > Bytes(0) ? "+" + format_bytes(d) : "-" + format_bytes(-d);
  };
  const auto amount = [](std::int64_t count, Bytes bytes) {
    return fmt::format("{} x {}", count, format_bytes(bytes));
  };
  Table table({{"B - A", Align::kRight},
               {"A", Align::kRight},
               {"B", Align::kRight},
               {"matched by"},
               {"in A"},
               {"in B"}},
              kIndent);
  Bytes rest;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const MatchedAlike& group = groups[g];
    if (g >= view.top) {
      rest += group.difference();
      continue;
    }
    table.add_row({{signed_bytes(group.difference())},
                   {amount(group.count, group.bytes_a)},
                   {amount(group.count, group.bytes_b)},
                   {std::string(name_of(group.how))},
                   {group.label_a.empty() ? "(no stack)" : group.label_a},
                   {group.label_b.empty() ? "(no stack)" : group.label_b}});
  }
  if (groups.size() > view.top) {
    table.add_row({{signed_bytes(rest)},
                   {""},
                   {""},
                   {fmt::format("{} others (--all shows them)", groups.size() - view.top)}});
  }
  return '\n' + bold("Matched, those alike together", view.colour) + '\n' +
         table.text(view.colour, view.width);
}

std::string RecordedDifference::perhaps(const DiffView& view) const {
  const std::vector<Multiple> pairs = multiples();
  if (pairs.empty()) return {};
  Table table({{"A", Align::kRight}, {""}, {"B", Align::kRight}, {""}, {"B / A"}}, kIndent);
  const auto size = [](const Alike& group) {
    return fmt::format("{} x {}", group.count, format_bytes(group.bytes));
  };
  for (std::size_t i = 0; i < std::min(view.top, pairs.size()); ++i) {
    const auto& [a, b] = pairs[i];
    table.add_row({{size(a)}, {a.label}, {size(b)}, {b.label}, {pairs[i].ratio()}});
  }
  return '\n' +
         bold("Of those, equally many in whole multiples: perhaps another type or shape",
              view.colour) +
         '\n' + table.text(view.colour, view.width);
}

std::string RecordedDifference::text(const DiffView& view) const {
  std::string text;
  for (const RecordedSide* side : {&a_, &b_}) {
    const RecordedPeak& peak = side->peak;
    text += fmt::format(
        "{}  {} {}: {} allocations, {} of them live at the peak{}{}\n",
        bold(side == &a_ ? "A" : "B", view.colour), side->simulated ? "simulation" : "snapshot",
        side->name, grouped(static_cast<std::int64_t>(peak.allocations)),
        grouped(static_cast<std::int64_t>(peak.live.size())),
        peak.unordered > 0 ? fmt::format(" ({} from before the recording)",
                                         grouped(static_cast<std::int64_t>(peak.unordered)))
                           : "",
        peak.out_of_memory ? paint("; runs out of memory", kBad, view.colour) : "");
  }
  text += fmt::format(
      "\n{} of what is live at the two peaks is the same: of one size (rounded to 512 bytes) and\n"
      "matched by what the stacks say of it, else by its place in the order of allocation.\n\n",
      percent(explained()));

  const BytesColumn unit(std::max(a_.peak.most_reserved, b_.peak.most_reserved));
  Table table({{""},
               {"A", Align::kRight},
               {"B", Align::kRight},
               {"B - A", Align::kRight},
               {"bytes", Align::kRight},
               {"allocations", Align::kRight}},
              kIndent);
  const auto signed_text = [](Bytes value, const std::string& words) {
    return value == Bytes(0) ? std::string("=") : (value > Bytes(0) ? "+" : "-") + words;
  };
  const auto row = [&](const TermPair<Bytes>& term, bool strong, const std::string& prefix,
                       std::size_t count = 0) {
    const Bytes d = term.difference();
    const Bytes size = d < Bytes(0) ? -d : d;
    table.add_row({{prefix + term.name, -1, strong},
                   {unit.text(term.a), -1, strong},
                   {unit.text(term.b), -1, strong},
                   {signed_text(d, unit.text(size)), -1, strong},
                   {d == Bytes(0) ? "" : signed_text(d, grouped(size.count)), -1, strong},
                   {count == 0 ? "" : grouped(static_cast<std::int64_t>(count)), -1, strong}});
  };
  for (const Term& term : terms_)
    row(term.bytes, false, "", term.count);
  row(live(), true, "");
  for (const TermPair<Bytes>& term : above_)
    row(term, false, "+ ");
  row(reserved(), true, "");
  text += table.text(view.colour, view.width);
  const Bytes context = std::max(a_.context, b_.context);
  if (context > Bytes(0)) {
    text += fmt::format(
        "  The CUDA context comes on top: {} in the simulation; a snapshot does not show it.\n",
        format_bytes(context));
  }
  text += matched(view);
  text += only(a_, match_.only_a, "Live only in A", view);
  text += only(b_, match_.only_b, "Live only in B", view);
  text += perhaps(view);
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
                {"context", s.simulated ? Json(s.context.count) : Json(nullptr)}};
  };
  const auto term = [](const TermPair<Bytes>& t) {
    return Json{
        {"name", t.name}, {"a", t.a.count}, {"b", t.b.count}, {"difference", t.difference().count}};
  };
  const auto list = [&](const RecordedPeak& peak, const std::vector<std::size_t>& which) {
    Json groups = Json::array();
    for (const Alike& group : group_alike(peak, which)) {
      groups.push_back(
          {{"label", group.label}, {"bytes", group.bytes.count}, {"count", group.count}});
    }
    return groups;
  };
  Json document{{"tidemark", kVersion}, {"a", side(a_)}, {"b", side(b_)}};
  document["explained"] = explained();
  document["matched"] = Json::array();
  for (const MatchedAlike& group : group_matched(a_.peak, b_.peak, match_)) {
    document["matched"].push_back({{"by", name_of(group.how)},
                                   {"a", group.label_a},
                                   {"b", group.label_b},
                                   {"count", group.count},
                                   {"bytes_a", group.bytes_a.count},
                                   {"bytes_b", group.bytes_b.count}});
  }
  document["live"] = term(live());
  document["reserved"] = term(reserved());
  document["terms"] = Json::array();
  for (const Term& t : terms_) {
    document["terms"].push_back(term(t.bytes));
    document["terms"].back()["count"] = t.count;
  }
  document["above"] = Json::array();
  for (const TermPair<Bytes>& t : above_)
    document["above"].push_back(term(t));
  document["only_a"] = list(a_.peak, match_.only_a);
  document["only_b"] = list(b_.peak, match_.only_b);
  document["multiples"] = Json::array();
  for (const auto& [x, y] : multiples()) {
    document["multiples"].push_back({{"a", x.label},
                                     {"b", y.label},
                                     {"count", x.count},
                                     {"bytes_a", x.bytes.count},
                                     {"bytes_b", y.bytes.count}});
  }
  return document;
}

}  // namespace
}  // namespace recorded_difference_detail

std::string recorded_difference_text(const RecordedSide& a, const RecordedSide& b,
                                     const DiffView& view) {
  return recorded_difference_detail::RecordedDifference(a, b).text(view);
}

recorded_difference_detail::Json recorded_difference_json(const RecordedSide& a,
                                                          const RecordedSide& b) {
  return recorded_difference_detail::RecordedDifference(a, b).json();
}

}  // namespace tidemark
