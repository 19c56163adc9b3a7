#include "scenarios/studies/sweep_journal.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "graph/core/errors.hpp"
#include "graph/core/sha1.hpp"
#include "scenarios/results/document_json.hpp"
#include "scenarios/results/read_result.hpp"
#include "scenarios/results/result_document.hpp"
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

std::string digest_of(std::string_view text) {
  Sha1 sha1;
  sha1.update(text);
  return sha1.hex();
}

// Computes the digests of points, each file read once.
class Keys {
 public:
  Keys(const Environment& environment, std::span<const std::string> plugins)
      : environment_(environment) {
    common_ = std::string(kVersion) + '\n';
    for (const std::string& plugin : plugins)
      common_ += content_of(plugin) + '\n';
  }

  [[nodiscard]] std::string key(const PointDocument& point, const std::string& told) {
    std::string text = common_ + told + '\n' + point.error + '\n';
    for (const Value::Entry& entry : point.document.entries) {
      // Keys for the use of results do not change the results.
      const bool after = entry.key == "report" || entry.key == "compare" || entry.key == "goal" ||
                         entry.key == "published";
      if (!after) text += fmt::format("{}:", entry.key) + text_of(entry.value) + '\n';
    }
    return digest_of(text);
  }

 private:
  std::string text_of(const Value& value) {
    switch (value.kind) {
      case Value::Kind::kNull:
        return "~";
      case Value::Kind::kScalar:
        return scalar(value);
      case Value::Kind::kSequence: {
        std::string text = "[";
        for (const Value& item : value.items)
          text += text_of(item) + ',';
        return text + ']';
      }
      case Value::Kind::kMapping: {
        std::string text = "{";
        for (const Value::Entry& entry : value.entries)
          text += fmt::format("{}:{}:", entry.key.size(), entry.key) + text_of(entry.value) + ',';
        return text + '}';
      }
    }
    throw InternalError("a value of no kind");
  }

  // Returns the content of a file; else the text, and the profile of that name if there is one.
  std::string scalar(const Value& value) {
    const std::string& text = value.scalar;
    if (std::string content = content_of(text); !content.empty()) return content;
    const std::string profile = profile_of(text);
    return fmt::format("{}:{}", text.size(), text) + (profile.empty() ? "" : '@' + profile);
  }

  // Returns the profile's digest; empty if there is no profile of that name.
  std::string profile_of(const std::string& name) {
    for (const std::string& folder : environment_.profile_folders) {
      const std::string& content = content_of(fmt::format("{}/{}.yaml", folder, name));
      if (!content.empty()) return content;
    }
    return {};
  }

  // Returns the digest of what a profile extends, by its path or its name; empty if it extends
  // nothing.
  std::string base_of(const std::string& path) {
    if (!path.ends_with(".yaml") && !path.ends_with(".yml")) return {};
    try {
      const Value profile = read_document(path);
      const Value* base = profile.find("extends");
      if (base == nullptr || !base->is_scalar()) return {};
      const std::string& beside =
          content_of((fs::path(path).parent_path() / base->scalar).string());
      return !beside.empty() ? beside : profile_of(base->scalar);
    } catch (const UserError&) {  // reported elsewhere
      return {};
    }
  }

  // Returns a file's digest with that of what it extends; empty if there is no such file.
  const std::string& content_of(const std::string& path) {
    const auto [entry, added] = contents_.try_emplace(path);
    std::error_code error;
    if (!added || !fs::is_regular_file(path, error)) return entry->second;
    std::ifstream file(path, std::ios::binary);
    Sha1 sha1;
    std::string block(std::size_t{1} << 20, '\0');
    while (file.read(block.data(), static_cast<std::streamsize>(block.size())) ||
           file.gcount() > 0) {
      sha1.update(std::string_view(block).substr(0, static_cast<std::size_t>(file.gcount())));
    }
    entry->second = "file " + sha1.hex();  // set first, for profiles that extend each other
    const std::string base = base_of(path);
    return entry->second += base;
  }

  const Environment& environment_;
  std::string common_;
  std::map<std::string, std::string> contents_;
};

Json header_of(const SweepIdentity& sweep, const Shard& shard) {
  std::string all;
  for (const std::string& key : sweep.keys)
    all += key;
  return {{"tidemark", kVersion},         {"sweep", digest_of(all)},     {"name", sweep.name},
          {"published", sweep.published}, {"points", sweep.keys.size()}, {"shard", shard.index},
          {"shards", shard.count}};
}

std::string line_of(std::size_t index, const std::string& key, const PointResult& result) {
  Json overrides = Json::object();
  for (const auto& [name, value] : result.overrides)
    overrides[name] = as_json(value);
  const Json json = {{"point", index},
                     {"key", key},
                     {"overrides", std::move(overrides)},
                     {"result", result_document(std::span(&result, 1)).at("points").at(0)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

struct Journal {
  std::string path;
  Json header;  // null: the file has no line that is whole
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

Journal read_journal(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(path, "cannot be read");
  Journal journal{.path = path};
  std::string line;
  while (std::getline(file, line)) {
    if (file.eof()) break;  // the line is cut off
    const Json json = Json::parse(line, nullptr, false);
    if (journal.header.is_null()) {
      if (!is_header(json)) fail(path, "is no journal of a sweep; move it elsewhere");
      journal.header = json;
      continue;
    }
    try {
      Journal::Entry entry{.index = json.at("point"),
                           .key = json.at("key"),
                           .result = read_point(json.at("result"))};
      entry.result.overrides.clear();
      for (const auto& [name, value] : json.at("overrides").items())
        entry.result.overrides.push_back({name, parse_document(value.get<std::string>(), path)});
      journal.entries.push_back(std::move(entry));
    } catch (const std::exception&) {
      // A line that another version or a full disk has left counts as a missing point.
    }
  }
  return journal;
}

std::vector<Journal> journals_of(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("points") && name.ends_with(".jsonl"))
      paths.push_back(entry->path().string());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Journal> journals;
  for (const std::string& path : paths) {
    journals.push_back(read_journal(path));
    if (journals.back().header.is_null()) journals.pop_back();
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

SweepIdentity sweep_identity(const Value& document, const Environment& environment,
                             std::span<const std::string> plugins, const Shard& shard) {
  SweepIdentity sweep;
  if (const Value* name = document.find("name")) sweep.name = name->scalar;
  const std::vector<PointDocument> points = point_documents(document);
  std::vector<Value> documents;
  for (const PointDocument& point : points) {
    documents.push_back(point.document);
    sweep.overrides.push_back(point.overrides);
  }
  sweep.keys.resize(points.size());
  sweep.of_shard.resize(points.size());
  sweep_journal_detail::Keys keys(environment, plugins);
  const std::vector<std::vector<std::size_t>> runs = budget_runs(documents);
  for (std::size_t r = 0; r < runs.size(); ++r) {
    std::string told;
    for (const std::size_t i : runs[r]) {
      sweep.keys[i] = told = keys.key(points[i], told);
      sweep.of_shard[i] = r % shard.count == shard.index;
    }
  }
  return sweep;
}

KnownPoints known_points(const std::string& folder, const SweepIdentity& sweep) {
  std::unordered_map<std::string, PointResult> by_key;
  for (sweep_journal_detail::Journal& journal : sweep_journal_detail::journals_of(folder)) {
    for (sweep_journal_detail::Journal::Entry& entry : journal.entries) {
      if (entry.result.status != PointStatus::kError)
        by_key.insert_or_assign(entry.key, std::move(entry.result));
    }
  }
  KnownPoints known(sweep.keys.size());
  for (std::size_t i = 0; i < known.size(); ++i) {
    const auto found = by_key.find(sweep.keys[i]);
    if (!sweep.of_shard[i] || found == by_key.end()) continue;
    known[i] = found->second;
    known[i]->overrides = sweep.overrides[i];  // the same point may be reached by other keys
  }
  return known;
}

SweepJournal::SweepJournal(const std::string& folder, const SweepIdentity& sweep,
                           const Shard& shard, const KnownPoints& known)
    : path_((std::filesystem::path(folder) / sweep_journal_detail::file_name(shard)).string()),
      sweep_(sweep) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  // The old file stays until the new one has the points that both share.
  const std::string fresh =
      (std::filesystem::path(folder) /
       fmt::format(".{}.{}", sweep_journal_detail::file_name(shard), getpid()))
          .string();
  file_.open(fresh, std::ios::binary | std::ios::trunc);
  file_ << sweep_journal_detail::header_of(sweep, shard)
               .dump(-1, ' ', false, sweep_journal_detail::Json::error_handler_t::replace)
        << '\n';
  for (std::size_t i = 0; i < sweep.keys.size(); ++i) {
    if (known[i]) file_ << sweep_journal_detail::line_of(i, sweep.keys[i], *known[i]);
  }
  file_.flush();
  if (!file_) {
    std::filesystem::remove(fresh, error);
    sweep_journal_detail::fail(path_, "cannot be written");
  }
  std::filesystem::rename(fresh, path_, error);
  if (error)
    sweep_journal_detail::fail(path_, fmt::format("cannot be written: {}", error.message()));
}

void SweepJournal::add(std::size_t index, const PointResult& result) {
  file_ << sweep_journal_detail::line_of(index, sweep_.keys[index], result) << std::flush;
  if (!file_) sweep_journal_detail::fail(path_, "cannot be written (is the disk full?)");
}

MergedSweep merge_journals(const std::string& folder) {
  std::vector<sweep_journal_detail::Journal> journals = sweep_journal_detail::journals_of(folder);
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
    std::string what;
    const auto of = first.at("shards").get<std::size_t>();
    for (std::size_t shard = 0; shard < of; ++shard) {
      if (of > 1 && !shards.contains(shard)) what += fmt::format(" --shard {}/{};", shard, of);
    }
    sweep_journal_detail::fail(
        folder, fmt::format("{} of {} points are missing{}{}; what is there already is kept",
                            missing, count,
                            what.empty() ? "; run the sweep again with --resume"
                                         : "; run tidemark sweep SCENARIO -o DIR with",
                            what.empty() ? "" : what.substr(0, what.size() - 1)));
  }
  MergedSweep merged;
  merged.published = first.at("published").get<std::vector<std::string>>();
  for (std::optional<PointResult>& result : found)
    merged.points.push_back(*std::move(result));
  return merged;
}

}  // namespace tidemark
