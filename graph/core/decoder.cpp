#include "graph/core/decoder.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <unordered_map>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/scalars.hpp"

namespace tidemark {

// The keys that have been read, by mapping.
struct Decoder::Record {
  struct Mapping {
    std::vector<std::string> keys;
    bool all = false;
  };
  std::unordered_map<const Value*, Mapping> asked;
};

namespace decoder_detail {
namespace {

// Stands for every value that is absent.
const Value& null_value() {
  static const Value null;
  return null;
}

constexpr std::size_t kMaxListedKeys = 12;  // an error lists the known keys up to this many

std::string join(std::span<const std::string_view> words, std::string_view between) {
  std::string text;
  for (const std::string_view word : words) {
    if (!text.empty()) text += between;
    text += word;
  }
  return text;
}

// "expected a mapping, found 'gpu:h100'; ...": for values that should have had keys.
std::string not_a_mapping(const Value& value) {
  std::string problem = "expected a mapping, found " + found(value);
  const std::size_t colon = value.scalar.find(':');
  if (value.is_scalar() && !value.quoted && colon != std::string::npos) {
    problem += "; a blank must follow the colon";
  }
  return problem;
}

}  // namespace
}  // namespace decoder_detail

Decoder::Decoder() : record_(std::make_shared<Record>()) {}

Decoder::Decoder(const Value& value, std::string path)
    : value_(&value),
      nearest_(&value),
      path_(std::move(path)),
      record_(std::make_shared<Record>()) {}

Decoder Decoder::describing(std::vector<ParameterNote>& notes) {
  Decoder decoder;
  decoder.notes_ = &notes;
  return decoder;
}

const Value& Decoder::value() const {
  return value_ == nullptr ? decoder_detail::null_value() : *value_;
}

Location Decoder::location() const {
  return nearest_ == nullptr ? Location{} : nearest_->location;
}

bool Decoder::has(std::string_view key) const {
  const Value* value = ask(key);
  return value != nullptr && !value->is_null();
}

Decoder Decoder::required_child(std::string_view key) const {
  const Value* value = ask(key);
  if (notes_ == nullptr && (value == nullptr || value->is_null())) {
    return child(key, &require(key, "a mapping"));
  }
  return child(key, value);
}

Decoder Decoder::optional_child(std::string_view key) const {
  return child(key, ask(key));
}

std::vector<Decoder> Decoder::items() const {
  std::vector<Decoder> items;
  if (value().is_null()) return items;
  if (!value_->is_sequence()) fail("expected a list, found " + found(*value_));
  items.reserve(value_->items.size());
  for (const Value& item : value_->items) {
    Decoder decoder = child({}, &item);
    decoder.path_ = path_ + '[' + std::to_string(items.size()) + ']';
    items.push_back(std::move(decoder));
  }
  return items;
}

std::vector<std::pair<std::string, Decoder>> Decoder::entries() const {
  std::vector<std::pair<std::string, Decoder>> entries;
  if (value().is_null()) return entries;
  if (!value_->is_mapping()) fail(decoder_detail::not_a_mapping(*value_));
  record_->asked[value_].all = true;
  entries.reserve(value_->entries.size());
  for (const Value::Entry& entry : value_->entries) {
    entries.emplace_back(entry.key, child(entry.key, &entry.value));
  }
  return entries;
}

void Decoder::finish() const {
  if (value().is_null()) return;
  if (!value_->is_mapping()) fail(decoder_detail::not_a_mapping(*value_));
  const Record::Mapping& asked = record_->asked[value_];
  if (asked.all) return;
  const std::vector<std::string>& known = asked.keys;
  for (const Value::Entry& entry : value_->entries) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
    std::string hint = did_you_mean(entry.key, known);
    if (hint.empty() && !known.empty() && known.size() <= decoder_detail::kMaxListedKeys) {
      hint = fmt::format("; known keys: {}", fmt::join(known, ", "));
    }
    throw UserError(entry.location, path_of(entry.key), "unknown key" + hint);
  }
}

void Decoder::fail(const std::string& problem) const {
  throw UserError(location(), path_, problem);
}

void Decoder::fail_at(std::string_view key, const std::string& problem) const {
  const Value* value = value_ == nullptr ? nullptr : value_->find(key);
  throw UserError(value == nullptr ? location() : value->location, path_of(key), problem);
}

Decoder Decoder::child(std::string_view key, const Value* value) const {
  Decoder child = *this;
  child.value_ = value;
  if (value != nullptr) child.nearest_ = value;
  child.path_ = path_of(key);
  return child;
}

// Returns the value of a key, which now counts as read; null when it is absent.
const Value* Decoder::ask(std::string_view key) const {
  if (value().is_null()) return nullptr;
  if (!value_->is_mapping()) fail(decoder_detail::not_a_mapping(*value_));
  std::vector<std::string>& keys = record_->asked[value_].keys;
  if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.emplace_back(key);
  return value_->find(key);
}

std::string Decoder::path_of(std::string_view key) const {
  if (path_.empty() || key.empty()) return path_ + excerpt(key);
  return path_ + '.' + excerpt(key);
}

// Returns the value of a key that must be there and must not be null.
const Value& Decoder::require(std::string_view key, std::string_view expected) const {
  const Value* value = ask(key);
  if (value != nullptr && !value->is_null()) return *value;
  if (value != nullptr) fail_at(key, fmt::format("expected {}, found null", expected));
  std::string hint;
  if (value_ != nullptr) {
    // A key that has not been read yet may be a misspelling of this one.
    const std::vector<std::string>& known = record_->asked[value_].keys;
    std::vector<std::string> strangers;
    for (const Value::Entry& entry : value_->entries) {
      const bool asked = std::find(known.begin(), known.end(), entry.key) != known.end();
      if (!asked && strangers.size() < decoder_detail::kMaxListedKeys)
        strangers.push_back(entry.key);
    }
    if (const auto nearest = nearest_word(key, strangers)) {
      hint = fmt::format("; is '{}' meant to be it?", excerpt(*nearest));
    }
  }
  fail_at(key, fmt::format("required key is missing; expected {}{}", expected, hint));
}

template <class T>
T Decoder::read(const Value& value, const Range& range, const std::string& path) const {
  try {
    return ScalarRules<T>::read(value, range);
  } catch (const std::invalid_argument& problem) {
    throw UserError(value.location.line > 0 ? value.location : location(), path, problem.what());
  }
}

void Decoder::note(std::string_view key, std::string type, std::string default_value,
                   std::string range, Range limits) const {
  const std::string name = path_of(key);
  for (const ParameterNote& known : *notes_) {
    if (known.name == name) return;
  }
  notes_->push_back({.name = name,
                     .type = std::move(type),
                     .default_value = std::move(default_value),
                     .range = std::move(range),
                     .limits = limits});
}

template <class T>
T Decoder::required(std::string_view key, Range range) const {
  using Rules = ScalarRules<T>;
  if (notes_ != nullptr) {
    note(key, std::string(Rules::type_name()), "", Rules::range_note(range), range);
    return Rules::lowest_legal(range);
  }
  return read<T>(require(key, Rules::expectation(range)), range, path_of(key));
}

template <class T>
T Decoder::optional(std::string_view key, T fallback, Range range) const {
  using Rules = ScalarRules<T>;
  if (notes_ != nullptr) {
    note(key, std::string(Rules::type_name()), Rules::write(fallback), Rules::range_note(range),
         range);
    return fallback;
  }
  const Value* value = ask(key);
  if (value == nullptr || value->is_null()) return fallback;
  return read<T>(*value, range, path_of(key));
}

template <class T>
std::optional<T> Decoder::maybe(std::string_view key, Range range) const {
  using Rules = ScalarRules<T>;
  if (notes_ != nullptr) {
    note(key, std::string(Rules::type_name()), "none", Rules::range_note(range), range);
    return std::nullopt;
  }
  const Value* value = ask(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return read<T>(*value, range, path_of(key));
}

template <class T>
std::vector<T> Decoder::list(std::string_view key, Range range) const {
  using Rules = ScalarRules<T>;
  if (notes_ != nullptr) {
    note(key, fmt::format("list of {}", Rules::type_name()), "[]", Rules::range_note(range), range);
    return {};
  }
  std::vector<T> list;
  const Value* value = ask(key);
  if (value == nullptr || value->is_null()) return list;
  if (!value->is_sequence()) {
    const std::string hint =
        value->is_scalar() ? fmt::format("; write [{}]", excerpt(value->scalar)) : "";
    fail_at(key, fmt::format("expected a list, found {}{}", found(*value), hint));
  }
  list.reserve(value->items.size());
  const std::string path = path_of(key);
  for (const Value& item : value->items)
    list.push_back(read<T>(item, range, fmt::format("{}[{}]", path, list.size())));
  return list;
}

template <class T>
std::vector<T> Decoder::optional_list(std::string_view key, std::vector<T> fallback,
                                      Range range) const {
  using Rules = ScalarRules<T>;
  if (notes_ != nullptr) {
    std::vector<std::string> written;
    written.reserve(fallback.size());
    for (const T& value : fallback)
      written.push_back(Rules::write(value));
    note(key, fmt::format("list of {}", Rules::type_name()),
         fmt::format("[{}]", fmt::join(written, ", ")), Rules::range_note(range), range);
    return fallback;
  }
  return has(key) ? list<T>(key, range) : fallback;
}

template <class T>
T Decoder::as(Range range) const {
  if (notes_ != nullptr && value_ == nullptr) return ScalarRules<T>::lowest_legal(range);
  if (value_ == nullptr) {
    fail(fmt::format("required value is missing; expected {}", ScalarRules<T>::expectation(range)));
  }
  return read<T>(*value_, range, path_);
}

std::string Decoder::read_word(const Value& value, std::span<const std::string_view> words,
                               const std::string& path) const {
  if (value.is_scalar() && std::find(words.begin(), words.end(), value.scalar) != words.end()) {
    return value.scalar;
  }
  const std::vector<std::string> candidates(words.begin(), words.end());
  std::string hint = value.is_scalar() ? did_you_mean(value.scalar, candidates) : "";
  const bool has_flags = std::find(words.begin(), words.end(), "true") != words.end();
  if (has_flags && hint.empty() && value.is_scalar()) hint = hint_of_flag(value.scalar);
  throw UserError(value.location, path,
                  fmt::format("expected {}{}, found {}{}", words.size() > 1 ? "one of " : "",
                              decoder_detail::join(words, ", "), found(value), hint));
}

std::string Decoder::required_word(std::string_view key,
                                   std::span<const std::string_view> words) const {
  if (notes_ != nullptr) {
    note(key, "word", "", decoder_detail::join(words, " | "));
    return words.empty() ? std::string() : std::string(words.front());
  }
  const std::string expected =
      (words.size() > 1 ? "one of " : "") + decoder_detail::join(words, ", ");
  return read_word(require(key, expected), words, path_of(key));
}

std::optional<std::string> Decoder::maybe_word(std::string_view key,
                                               std::span<const std::string_view> words) const {
  if (notes_ != nullptr) {
    note(key, "word", "none", decoder_detail::join(words, " | "));
    return std::nullopt;
  }
  const Value* value = ask(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return read_word(*value, words, path_of(key));
}

std::string Decoder::optional_word(std::string_view key, std::span<const std::string_view> words,
                                   std::string_view fallback) const {
  if (notes_ != nullptr)
    note(key, "word", std::string(fallback), decoder_detail::join(words, " | "));
  return maybe_word(key, words).value_or(std::string(fallback));
}

void Decoder::mention(std::string_view key, std::string_view type, std::string_view range) const {
  if (notes_ != nullptr) note(key, std::string(type), "none", std::string(range));
}

template bool Decoder::required<bool>(std::string_view, Range) const;
template int Decoder::required<int>(std::string_view, Range) const;
template std::int64_t Decoder::required<std::int64_t>(std::string_view, Range) const;
template double Decoder::required<double>(std::string_view, Range) const;
template std::string Decoder::required<std::string>(std::string_view, Range) const;
template Bytes Decoder::required<Bytes>(std::string_view, Range) const;
template Duration Decoder::required<Duration>(std::string_view, Range) const;
template BytesPerSecond Decoder::required<BytesPerSecond>(std::string_view, Range) const;
template FlopsPerSecond Decoder::required<FlopsPerSecond>(std::string_view, Range) const;

template bool Decoder::optional<bool>(std::string_view, bool, Range) const;
template int Decoder::optional<int>(std::string_view, int, Range) const;
template std::int64_t Decoder::optional<std::int64_t>(std::string_view, std::int64_t, Range) const;
template double Decoder::optional<double>(std::string_view, double, Range) const;
template std::string Decoder::optional<std::string>(std::string_view, std::string, Range) const;
template Bytes Decoder::optional<Bytes>(std::string_view, Bytes, Range) const;
template Duration Decoder::optional<Duration>(std::string_view, Duration, Range) const;
template BytesPerSecond Decoder::optional<BytesPerSecond>(std::string_view, BytesPerSecond,
                                                          Range) const;
template FlopsPerSecond Decoder::optional<FlopsPerSecond>(std::string_view, FlopsPerSecond,
                                                          Range) const;

template std::optional<bool> Decoder::maybe<bool>(std::string_view, Range) const;
template std::optional<FlagOrNumber> Decoder::maybe<FlagOrNumber>(std::string_view, Range) const;
template std::optional<int> Decoder::maybe<int>(std::string_view, Range) const;
template std::optional<std::int64_t> Decoder::maybe<std::int64_t>(std::string_view, Range) const;
template std::optional<double> Decoder::maybe<double>(std::string_view, Range) const;
template std::optional<std::string> Decoder::maybe<std::string>(std::string_view, Range) const;
template std::optional<Bytes> Decoder::maybe<Bytes>(std::string_view, Range) const;
template std::optional<Duration> Decoder::maybe<Duration>(std::string_view, Range) const;
template std::optional<BytesPerSecond> Decoder::maybe<BytesPerSecond>(std::string_view,
                                                                      Range) const;
template std::optional<FlopsPerSecond> Decoder::maybe<FlopsPerSecond>(std::string_view,
                                                                      Range) const;

template std::vector<bool> Decoder::list<bool>(std::string_view, Range) const;
template std::vector<int> Decoder::list<int>(std::string_view, Range) const;
template std::vector<std::int64_t> Decoder::list<std::int64_t>(std::string_view, Range) const;
template std::vector<double> Decoder::list<double>(std::string_view, Range) const;
template std::vector<std::string> Decoder::list<std::string>(std::string_view, Range) const;
template std::vector<Bytes> Decoder::list<Bytes>(std::string_view, Range) const;
template std::vector<Duration> Decoder::list<Duration>(std::string_view, Range) const;
template std::vector<BytesPerSecond> Decoder::list<BytesPerSecond>(std::string_view, Range) const;
template std::vector<FlopsPerSecond> Decoder::list<FlopsPerSecond>(std::string_view, Range) const;

template std::vector<std::int64_t> Decoder::optional_list<std::int64_t>(std::string_view,
                                                                        std::vector<std::int64_t>,
                                                                        Range) const;

template bool Decoder::as<bool>(Range) const;
template int Decoder::as<int>(Range) const;
template std::int64_t Decoder::as<std::int64_t>(Range) const;
template double Decoder::as<double>(Range) const;
template std::string Decoder::as<std::string>(Range) const;
template Bytes Decoder::as<Bytes>(Range) const;
template Duration Decoder::as<Duration>(Range) const;
template BytesPerSecond Decoder::as<BytesPerSecond>(Range) const;
template FlopsPerSecond Decoder::as<FlopsPerSecond>(Range) const;

}  // namespace tidemark
