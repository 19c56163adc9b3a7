#include "scenarios/studies/journal/sweep_journal.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/core/errors.hpp"
#include "graph/core/paths.hpp"
#include "graph/core/sha1.hpp"
#include "graph/core/temporary_files.hpp"
#include "scenarios/results/document_json.hpp"
#include "scenarios/results/read_result.hpp"
#include "scenarios/results/result_document.hpp"
#include "scenarios/studies/journal/journal_lines.hpp"
#include "scenarios/studies/journal/point_keys.hpp"
#include "scenarios/studies/simulate_points.hpp"
#include "scenarios/studies/smaller_budget.hpp"
#include "tidemark/version.hpp"

namespace tidemark {
namespace sweep_journal_detail {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string file_name(const Shard& shard) {
  if (shard.count == 1) return "points.jsonl";
  return fmt::format("points-{}-of-{}.jsonl", shard.index, shard.count);
}

[[noreturn]] void fail(const std::string& path, const std::string& problem) {
  throw UserError({.file = path}, {}, problem);
}

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json header_of(const SweepIdentity& sweep, const Shard& shard) {
  return {{"tidemark", kVersion},         {"sweep", digest_of(sweep)},   {"name", sweep.name},
          {"published", sweep.published}, {"points", sweep.keys.size()}, {"shard", shard.index},
          {"shards", shard.count},        {"command", sweep.command}};
}

std::string line_of(std::size_t index, const std::string& key, const PointResult& result) {
  Json overrides = Json::object();
  for (const auto& [name, value] : result.overrides)
    overrides[name] = as_json(value);
  const Json json = {{"point", index},
                     {"key", key},
                     {"overrides", std::move(overrides)},
                     {"result", result_entry(result)}};
  return checked_line(text_of(json));
}

struct Journal {
  std::string path;
  Json header;         // null: the file has no whole line, or the first is damaged
  std::string damage;  // describes its damaged lines, whose points are missing
  struct Entry {
    std::size_t index = 0;
    std::string key;
    PointResult result;
  };
  std::vector<Entry> entries;
};

// A sweep has no more points (sweep_points.cpp), and more shards would be empty.
constexpr std::size_t kMostPoints = 1'000'000;
constexpr std::size_t kMostShards = 1'000'000;

bool is_header(const Json& json) {
  if (json.is_discarded() || !json.is_object()) return false;
  for (const char* key : {"points", "shard", "shards"}) {
    if (!json.contains(key) || !json.at(key).is_number_unsigned()) return false;
  }
  for (const char* key : {"tidemark", "sweep"}) {
    if (!json.contains(key) || !json.at(key).is_string()) return false;
  }
  const auto number = [&](const char* key) { return json.at(key).get<std::size_t>(); };
  if (number("points") == 0 || number("points") > kMostPoints) return false;
  if (number("shards") > kMostShards || number("shard") >= number("shards")) return false;
  const Json published = json.value("published", Json());
  return published.is_array() && std::all_of(published.begin(), published.end(),
                                             [](const Json& line) { return line.is_string(); });
}

std::optional<Journal::Entry> entry_of(const Json& json, const std::string& path) {
  try {
    Journal::Entry entry{
        .index = json.at("point"), .key = json.at("key"), .result = read_point(json.at("result"))};
    entry.result.overrides.clear();
    for (const auto& [name, value] : json.at("overrides").items())
      entry.result.overrides.push_back({name, parse_document(value.get<std::string>(), path)});
    return entry;
  } catch (const std::exception&) {
    return std::nullopt;  // another version wrote it
  }
}

Journal read_journal(const std::string& path) {
  const JournalLines lines = read_journal_lines(path);
  Journal journal{.path = path, .header = {}, .damage = damage_text(lines)};
  // A journal's first line has one of these, whatever single byte of it is damaged.
  bool is_journal = lines.first.empty();
  for (const char* part : {R"("tidemark":")", R"("checksum":")"})
    is_journal = is_journal || lines.first.find(part) != std::string::npos;
  for (const JournalLines::Line& line : lines.whole) {
    const Json json = Json::parse(line.json, nullptr, false);
    if (line.number == 1 && is_header(json)) {
      journal.header = json;
    } else if (std::optional<Journal::Entry> entry = entry_of(json, path)) {
      journal.entries.push_back(*std::move(entry));
    } else if (line.number == 1) {
      is_journal = false;
    }
  }
  if (!is_journal) fail(path, "is no journal of a sweep; move it elsewhere");
  return journal;
}

std::vector<Journal> journals_of(const std::string& folder) {
  std::vector<Journal> journals;
  for (const std::string& name : names_in_folder(folder)) {
    if (name.starts_with("points") && name.ends_with(".jsonl"))
      journals.push_back(read_journal((fs::path(folder) / name).string()));
  }
  return journals;
}

}  // namespace
}  // namespace sweep_journal_detail

Shard parse_shard(const std::string& text) {
  Shard shard;
  const char* const end = text.data() + text.size();
  const auto index = std::from_chars(text.data(), end, shard.index);
  const bool slash = index.ec == std::errc() && index.ptr != end && *index.ptr == '/';
  if (slash) {
    const auto count = std::from_chars(index.ptr + 1, end, shard.count);
    const bool whole = count.ec == std::errc() && count.ptr == end;
    if (whole && shard.count <= sweep_journal_detail::kMostShards && shard.index < shard.count)
      return shard;
  }
  throw std::invalid_argument(
      fmt::format("expected I/N with I from 0 to N - 1 and N up to {}, such as 0/3, found {}",
                  sweep_journal_detail::kMostShards, text));
}

std::string digest_of(const SweepIdentity& sweep) {
  std::string all;
  for (const std::string& key : sweep.keys)
    all += key;
  return sha1_of(all);
}

SweepIdentity sweep_identity(const Value& document, const Environment& environment,
                             std::span<const std::string> plugins, const Shard& shard) {
  SweepIdentity sweep;
  if (const Value* name = document.find("name")) sweep.name = name->scalar;
  const Value base = without_sweep(document);
  sweep.overrides = sweep_points(document);
  // Documents are made twice, one at a time: those of ten thousand points are large.
  BudgetRuns all;
  for (const std::vector<Override>& overrides : sweep.overrides)
    all.add(make_point_document(base, overrides).document);
  sweep.keys.resize(sweep.overrides.size());
  sweep.of_shard.resize(sweep.overrides.size());
  PointKeys keys(environment, plugins);
  const std::vector<std::vector<std::size_t>> runs = all.take();
  for (std::size_t r = 0; r < runs.size(); ++r) {
    std::string previous;
    for (const std::size_t i : runs[r]) {
      const PointDocument point = make_point_document(base, sweep.overrides[i]);
      sweep.keys[i] = previous = keys.key(point, previous);
      sweep.of_shard[i] = r % shard.count == shard.index;
    }
  }
  return sweep;
}

JournalPoints journal_points(const std::string& folder, const SweepIdentity& sweep,
                             const Shard& shard) {
  const std::string own = SweepJournal::path_of(folder, shard);
  JournalPoints points;
  const std::unordered_set<std::string_view> of_sweep(sweep.keys.begin(), sweep.keys.end());
  std::unordered_map<std::string, PointResult> by_key;
  for (sweep_journal_detail::Journal& journal : sweep_journal_detail::journals_of(folder)) {
    if (!journal.damage.empty()) points.damage.push_back(journal.damage);
    for (sweep_journal_detail::Journal::Entry& entry : journal.entries) {
      if (journal.path == own && !of_sweep.contains(entry.key)) ++points.others;
      if (entry.result.status != PointStatus::kError)
        by_key.insert_or_assign(entry.key, std::move(entry.result));
    }
  }
  for (std::size_t i = 0; i < sweep.keys.size(); ++i) {
    const auto found = by_key.find(sweep.keys[i]);
    if (!sweep.of_shard[i] || found == by_key.end()) continue;
    PointResult& known = points.known[i] = found->second;
    known.overrides = sweep.overrides[i];  // the same point may be reached by other keys
  }
  return points;
}

std::string SweepJournal::path_of(const std::string& folder, const Shard& shard) {
  return (std::filesystem::path(folder) / sweep_journal_detail::file_name(shard)).string();
}

std::string SweepJournal::earlier_of(const std::string& path) {
  std::string earlier = path + ".earlier";
  for (int number = 2; path_exists(earlier); ++number)
    earlier = fmt::format("{}.earlier-{}", path, number);
  return earlier;
}

SweepJournal::SweepJournal(const std::string& folder, const SweepIdentity& sweep,
                           const Shard& shard, const KnownPoints& known, const std::string& earlier)
    : path_(path_of(folder, shard)), sweep_(sweep) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  // The old file stays until the new one has the points that both share.
  const std::filesystem::path fresh = new_temporary(path_);
  if (fresh.empty()) sweep_journal_detail::fail(path_, "cannot be written");
  file_.open(fresh, std::ios::binary | std::ios::trunc);
  file_ << checked_line(
      sweep_journal_detail::text_of(sweep_journal_detail::header_of(sweep, shard)));
  for (const auto& [i, point] : known)
    file_ << sweep_journal_detail::line_of(i, sweep.keys[i], point);
  file_.flush();
  if (!file_) {
    std::filesystem::remove(fresh, error);
    sweep_journal_detail::fail(path_, kNotWritten);
  }
  if (!earlier.empty()) std::filesystem::rename(path_, earlier, error);
  if (!error) std::filesystem::rename(fresh, path_, error);
  if (error)
    sweep_journal_detail::fail(path_, fmt::format("cannot be written: {}", error.message()));
}

void SweepJournal::add(std::size_t index, const PointResult& result) {
  file_ << sweep_journal_detail::line_of(index, sweep_.keys[index], result) << std::flush;
  if (!file_) sweep_journal_detail::fail(path_, kNotWritten);
}

namespace sweep_journal_detail {
namespace {

// Says which points of a merged sweep are missing, and how to simulate them. `shards`: those that
// there are, `of` how many.
[[noreturn]] void fail_for_missing(const std::string& folder,
                                   const std::vector<std::string>& damaged, std::size_t missing,
                                   std::size_t count, const std::set<std::size_t>& shards,
                                   std::size_t of) {
  std::string damage;
  for (const std::string& journal : damaged)
    damage += journal + "; ";
  std::string what;
  for (std::size_t shard = 0; shard < of; ++shard) {
    if (of > 1 && !shards.contains(shard)) what += fmt::format(" --shard {}/{};", shard, of);
  }
  fail(folder, fmt::format("{}{} of {} points are missing{}{}; what is there already is kept",
                           damage, missing, count,
                           what.empty() ? "; run the sweep again with --resume"
                                        : "; run tidemark sweep SCENARIO -o DIR with",
                           what.empty() ? "" : what.substr(0, what.size() - 1)));
}

}  // namespace
}  // namespace sweep_journal_detail

MergedSweep merge_journals(const std::string& folder) {
  std::vector<sweep_journal_detail::Journal> journals = sweep_journal_detail::journals_of(folder);
  MergedSweep merged;
  for (const sweep_journal_detail::Journal& journal : journals) {
    if (!journal.damage.empty()) merged.damage.push_back(journal.damage);
    if (!journal.header.is_null() || journal.damage.empty()) continue;
    throw UserError(fmt::format("{}; run the sweep again with --resume", journal.damage));
  }
  std::erase_if(journals, [](const auto& journal) { return journal.header.is_null(); });
  if (journals.empty()) {
    sweep_journal_detail::fail(
        folder, "has no points of a sweep; run tidemark sweep SCENARIO -o DIR --shard I/N first");
  }
  const sweep_journal_detail::Json& first = journals.front().header;
  const auto count = first.at("points").get<std::size_t>();
  std::vector<std::optional<PointResult>> found(count);
  std::set<std::size_t> shards;
  for (sweep_journal_detail::Journal& journal : journals) {
    const bool same = journal.header.at("sweep") == first.at("sweep") &&
                      journal.header.at("tidemark") == first.at("tidemark");
    if (!same) {
      sweep_journal_detail::fail(
          journal.path, fmt::format("is of another sweep than {}: the scenario, its files or the "
                                    "version of Tidemark changed in between; remove one of them",
                                    journals.front().path));
    }
    shards.insert(journal.header.at("shard").get<std::size_t>());
    for (sweep_journal_detail::Journal::Entry& entry : journal.entries) {
      if (entry.index < count) found[entry.index] = std::move(entry.result);
    }
  }
  const auto missing =
      static_cast<std::size_t>(std::count(found.begin(), found.end(), std::nullopt));
  if (missing > 0) {
    sweep_journal_detail::fail_for_missing(folder, merged.damage, missing, count, shards,
                                           first.at("shards").get<std::size_t>());
  }
  merged.published = first.at("published").get<std::vector<std::string>>();
  if (const auto command = first.find("command"); command != first.end() && command->is_string())
    merged.command = command->get<std::string>();
  for (std::optional<PointResult>& result : found)
    merged.points.push_back(*std::move(result));
  return merged;
}

}  // namespace tidemark
