#include "graph/core/document_builder.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace tidemark {
namespace document_builder_detail {
namespace {

// Up to this many keys a mapping is searched one by one.
constexpr std::size_t kSmallMapping = 16;

// Adds the nodes and the text of a tree; returns its height (a scalar has none).
std::size_t measure(const Value& value, std::size_t& nodes, std::size_t& text_bytes) {
  ++nodes;
  text_bytes += value.scalar.size();
  std::size_t height = 0;
  for (const Value& item : value.items) {
    height = std::max(height, 1 + measure(item, nodes, text_bytes));
  }
  for (const Value::Entry& entry : value.entries) {
    text_bytes += entry.key.size();
    height = std::max(height, 1 + measure(entry.value, nodes, text_bytes));
  }
  return value.is_sequence() || value.is_mapping() ? std::max<std::size_t>(height, 1) : height;
}

}  // namespace
}  // namespace document_builder_detail

void DocumentBuilder::add_null(Place place, std::size_t anchor) {
  if (expects_key()) fail(place, "a key is missing here; a key may not be empty or null");
  add(place, make(Value::Kind::kNull, place), anchor);
}

void DocumentBuilder::add_scalar(Place place, std::string text, bool quoted, std::size_t anchor) {
  if (text.find('\0') != std::string::npos) fail(place, "a text may not contain a NUL character");
  if (expects_key() && !quoted && text == "<<") {
    fail(place, "merge keys ('<<') are not supported; write the keys out");
  }
  Value value = make(Value::Kind::kScalar, place);
  value.scalar = std::move(text);
  value.quoted = quoted;
  add(place, std::move(value), anchor);
}

void DocumentBuilder::add_alias(Place place, std::size_t anchor) {
  const auto found = named_.find(anchor);
  if (found == named_.end()) fail(place, "this alias stands inside the value that it names");
  const Named& named = found->second;
  if (open_.size() + named.height > static_cast<std::size_t>(kMaxDepth)) {
    fail(place, fmt::format("nested more than {} levels deep", kMaxDepth));
  }
  if (expects_key() && !named.value.is_scalar()) fail(place, "a key must be a plain text");
  count_alias(place, named);
  add(place, named.value, 0);
}

void DocumentBuilder::begin(Value::Kind kind, Place place, std::size_t anchor) {
  if (open_.size() >= static_cast<std::size_t>(kMaxDepth)) {
    fail(place, fmt::format("nested more than {} levels deep", kMaxDepth));
  }
  if (expects_key()) {
    fail(place, "a key must be a plain text, not a list or a mapping; quote it if it is a text");
  }
  Open open;
  open.value = make(kind, place);
  open.anchor = anchor;
  open_.push_back(std::move(open));
}

void DocumentBuilder::end() {
  Value value = std::move(open_.back().value);
  const std::size_t anchor = open_.back().anchor;
  open_.pop_back();
  const Place place{value.location.line, value.location.column};
  add(place, std::move(value), anchor);
}

Value DocumentBuilder::take() {
  if (root_.location.line == 0) root_.location = {file_, 1, 1};
  return std::move(root_);
}

bool DocumentBuilder::inside_mapping() const {
  return !open_.empty() && open_.back().value.is_mapping();
}

bool DocumentBuilder::expects_key() const {
  return inside_mapping() && !open_.back().has_key;
}

void DocumentBuilder::fail(Place place, const std::string& problem) const {
  throw UserError({file_, place.line, place.column}, path(), problem);
}

// Returns the path to the value that the reader has reached: "models[2].layers".
std::string DocumentBuilder::path() const {
  constexpr std::size_t kShown = 8;  // levels; a deeper path says nothing more
  std::string path;
  for (std::size_t level = 0; level < std::min(open_.size(), kShown); ++level) {
    const Open& open = open_[level];
    if (open.value.is_sequence()) {
      path += fmt::format("[{}]", open.value.items.size());
    } else if (open.has_key) {
      path += (path.empty() ? "" : ".") + excerpt(open.key);
    }
  }
  return open_.size() > kShown ? path + "..." : path;
}

Value DocumentBuilder::make(Value::Kind kind, Place place) const {
  Value value;
  value.kind = kind;
  value.location = {file_, place.line, place.column};
  return value;
}

// An alias of aliases of aliases grows exponentially ("billion laughs"), so copies are counted
// before they are made.
void DocumentBuilder::count_alias(Place place, const Named& named) {
  alias_nodes_ += named.nodes;
  alias_bytes_ += named.text_bytes;
  nodes_ += named.nodes;
  if (alias_nodes_ > kMaxAliasNodes || alias_bytes_ > kMaxAliasBytes) {
    fail(place, fmt::format("the aliases (*) expand to more than {} values or {} MiB of text",
                            kMaxAliasNodes, kMaxAliasBytes >> 20));
  }
}

void DocumentBuilder::add(Place place, Value value, std::size_t anchor) {
  if (++nodes_ > kMaxNodes) {
    fail(place, fmt::format("the document has more than {} values", kMaxNodes));
  }
  if (anchor != 0) {
    Named named;
    named.height = document_builder_detail::measure(value, named.nodes, named.text_bytes);
    count_alias(place, named);
    named.value = value;
    named_.insert_or_assign(anchor, std::move(named));
  }
  if (open_.empty()) {
    root_ = std::move(value);
  } else if (open_.back().value.is_sequence()) {
    open_.back().value.items.push_back(std::move(value));
  } else if (!open_.back().has_key) {
    add_key(place, std::move(value.scalar));
  } else {
    Open& open = open_.back();
    open.value.entries.push_back({.key = std::move(open.key),
                                  .location = {file_, open.key_place.line, open.key_place.column},
                                  .value = std::move(value)});
    open.has_key = false;
  }
}

void DocumentBuilder::add_key(Place place, std::string key) {
  Open& open = open_.back();
  open.key = std::move(key);
  open.key_place = place;
  open.has_key = true;
  check_duplicate(place, open);
}

void DocumentBuilder::check_duplicate(Place place, Open& open) const {
  const std::vector<Value::Entry>& entries = open.value.entries;
  if (entries.size() < document_builder_detail::kSmallMapping) {
    for (const Value::Entry& entry : entries) {
      if (entry.key != open.key) continue;
      fail(place, fmt::format("duplicate key; first given on line {}", entry.location.line));
    }
    return;
  }
  if (open.lines.empty()) {
    for (const Value::Entry& entry : entries)
      open.lines.emplace(entry.key, entry.location.line);
  }
  const auto [first, is_new] = open.lines.emplace(open.key, place.line);
  if (!is_new) fail(place, fmt::format("duplicate key; first given on line {}", first->second));
}

}  // namespace tidemark
