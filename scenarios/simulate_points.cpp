#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "scenarios/simulate.hpp"

namespace tidemark {
namespace {

// A model that several points share: built by the first that needs it, dropped by the last.
struct SharedModel {
  std::once_flag built;
  std::unique_ptr<const TrainedModel> model;
  std::string error;
  std::atomic<int> users{0};
};

struct Point {
  std::vector<Override> overrides;
  std::optional<Scenario> scenario;
  std::string error;
  SharedModel* shared = nullptr;
};

// Digits with an optional sign and fraction; other spellings of numbers stay texts.
bool is_json_number(std::string_view s) {
  if (!s.empty() && s.front() == '-') s.remove_prefix(1);
  const std::size_t point = std::min(s.find('.'), s.size());
  const std::string_view whole = s.substr(0, point);
  const std::string_view fraction = point == s.size() ? "0" : s.substr(point + 1);
  const auto digits = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return digits(whole) && digits(fraction) && (whole.size() == 1 || whole.front() != '0');
}

void append_json(const Value& value, std::string& text) {
  const auto quote = [&](std::string_view word) {
    text += '"';
    for (char c : word) {
      if (c == '"' || c == '\\') text += '\\';
      if (static_cast<unsigned char>(c) < 0x20) {
        text += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
      } else {
        text += c;
      }
    }
    text += '"';
  };
  switch (value.kind) {
    case Value::Kind::kNull:
      text += "null";
      return;
    case Value::Kind::kScalar: {
      const std::string& s = value.scalar;
      if (!value.quoted && (s == "true" || s == "false" || is_json_number(s))) {
        text += s;
      } else {
        quote(s);
      }
      return;
    }
    case Value::Kind::kSequence:
      text += '[';
      for (const Value& item : value.items) {
        if (&item != &value.items.front()) text += ", ";
        append_json(item, text);
      }
      text += ']';
      return;
    case Value::Kind::kMapping:
      text += '{';
      for (const Value::Entry& entry : value.entries) {
        if (&entry != &value.entries.front()) text += ", ";
        quote(entry.key);
        text += ": ";
        append_json(entry.value, text);
      }
      text += '}';
      return;
  }
}

std::string as_json(const Value& value) {
  std::string text;
  append_json(value, text);
  return text;
}

PointResult error_row(const Value& document, const std::string& error) {
  PointResult row;
  if (const Value* name = document.find("name")) row.name = name->scalar;
  row.status = PointStatus::kError;
  row.error = error;
  return row;
}

PointResult run_point(Point& point, const Value& document, const SimulateOptions& options) {
  if (!point.scenario) return error_row(document, point.error);
  SharedModel& shared = *point.shared;
  std::call_once(shared.built, [&] {
    try {
      shared.model = std::make_unique<const TrainedModel>(build_training(*point.scenario));
    } catch (const UserError& error) {
      shared.error = error.what();
    }
  });
  PointResult row;
  if (shared.model == nullptr) {
    row = error_row(document, shared.error);
  } else {
    try {
      row = simulate(*point.scenario, *shared.model, options);
    } catch (const UserError& error) {
      row = error_row(document, error.what());
    }
  }
  if (--shared.users == 0) shared.model.reset();
  return row;
}

}  // namespace

std::string training_key(const Value& document, const Scenario& scenario) {
  std::string key;
  for (const char* part : {"model", "training"}) {
    const Value* value = document.find(part);
    if (value != nullptr) append_json(*value, key);
    key += '\n';
  }
  for (std::size_t i = 0; i < scenario.policies.size(); ++i) {
    const AnyPolicy& policy = scenario.policies[i];
    if (!std::holds_alternative<std::unique_ptr<ForwardRewrite>>(policy) &&
        !std::holds_alternative<std::unique_ptr<TrainingRewrite>>(policy)) {
      continue;
    }
    append_json(*document.find("policies"), key);
    break;
  }
  return key;
}

std::vector<PointResult> simulate_points(
    const Value& document, const Environment& environment, int threads,
    const SimulateOptions& options, const std::function<void(std::size_t, std::size_t)>& progress) {
  std::vector<Point> points;
  for (std::vector<Override>& overrides : sweep_points(document)) {
    points.push_back({.overrides = std::move(overrides)});
  }
  Value base = document;
  std::erase_if(base.entries, [](const Value::Entry& entry) { return entry.key == "sweep"; });

  std::unordered_map<std::string, std::unique_ptr<SharedModel>> models;
  for (Point& point : points) {
    Value changed = base;
    try {
      for (const Override& change : point.overrides)
        apply_override(changed, change);
      point.scenario.emplace(decode_scenario(changed, environment));
    } catch (const UserError& error) {
      if (points.size() == 1) throw;
      point.error = error.what();
      continue;
    }
    std::unique_ptr<SharedModel>& model = models[training_key(changed, *point.scenario)];
    if (model == nullptr) model = std::make_unique<SharedModel>();
    ++model->users;
    point.shared = model.get();
  }

  std::vector<PointResult> results(points.size());
  std::atomic<std::size_t> next{0};
  std::size_t done = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    for (std::size_t i = next++; i < points.size(); i = next++) {
      try {
        results[i] = run_point(points[i], base, options);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (failure == nullptr) failure = std::current_exception();
        next = points.size();
        return;
      }
      for (const Override& change : points[i].overrides) {
        results[i].overrides.emplace_back(change.key, as_json(change.value));
      }
      points[i].scenario.reset();
      const std::lock_guard lock(mutex);
      ++done;
      if (progress) progress(done, points.size());
    }
  };
  const auto workers = static_cast<std::size_t>(std::max(1, threads));
  std::vector<std::jthread> pool;
  for (std::size_t t = 1; t < std::min(workers, points.size()); ++t)
    pool.emplace_back(work);
  work();
  pool.clear();  // joins
  if (failure != nullptr) std::rethrow_exception(failure);
  if (points.size() == 1 && results[0].status == PointStatus::kError) {
    throw UserError(results[0].error);
  }
  return results;
}

}  // namespace tidemark
