// Changes to a scenario: "training.micro_batch=4" on the command line, one point of a sweep.
#include <utility>

#include <fmt/format.h>

#include "scenarios/read/scenario.hpp"
#include "scenarios/read/short_form.hpp"

namespace tidemark {
namespace override_detail {
namespace {

constexpr std::string_view kOption = "-s";
// its entries are keys that have dots of their own
constexpr std::string_view kMatrix = "sweep.matrix.";

[[noreturn]] void fail_option(std::size_t column, const std::string& path,
                              const std::string& problem) {
  throw UserError({std::string(kOption), 1, static_cast<int>(column)}, path, problem);
}

// Columns count from the start of the option's text, not of the value in it.
void shift_columns(Value& value, int columns) {
  value.location.column += columns;
  for (Value& item : value.items)
    shift_columns(item, columns);
  for (Value::Entry& entry : value.entries) {
    entry.location.column += columns;
    shift_columns(entry.value, columns);
  }
}

// Returns the parts of "training.micro_batch"; empty when a part is empty.
std::vector<std::string> parts_of(std::string_view key) {
  std::vector<std::string> parts;
  if (key.starts_with(kMatrix)) {
    parts = {"sweep", "matrix"};
    key.remove_prefix(kMatrix.size());
    if (key.empty()) return {};
    parts.emplace_back(key);
    return parts;
  }
  while (true) {
    const std::size_t dot = key.find('.');
    if (dot == 0 || key.empty()) return {};
    parts.emplace_back(key.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    key.remove_prefix(dot + 1);
  }
}

// One change to a document while it is applied.
struct Change {
  const Override& change;
  std::vector<std::string> parts;

  [[nodiscard]] const Location& location() const { return change.value.location; }
  [[noreturn]] void fail(const std::string& problem) const {
    throw UserError(location(), excerpt(change.key), problem);
  }
  [[nodiscard]] bool is_last(std::size_t part) const { return part + 1 == parts.size(); }
};

// Returns the name of an item of `policies`: "revolve" or the key of {zero: {...}}; empty for
// neither.
std::string policy_name(const Value& item) {
  if (item.is_scalar()) return item.scalar;
  return item.is_mapping() && item.entries.size() == 1 ? item.entries.front().key : std::string();
}

Value& listed_policy(const Change& change, Value& policies) {
  const std::string& name = change.parts[1];
  Value* found = nullptr;
  std::vector<std::string> names;
  for (Value& item : policies.items) {
    names.push_back(policy_name(item));
    if (names.back() != name) continue;
    if (found != nullptr) {
      change.fail(
          fmt::format("policy {} is listed twice (lines {} and {}), so it is not clear which "
                      "one is meant; override 'policies' as a whole",
                      tidemark::quoted_excerpt(name), found->location.line, item.location.line));
    }
    found = &item;
  }
  if (found != nullptr) return *found;
  std::string hint = did_you_mean(name, names);
  if (hint.empty()) {
    hint = names.empty()
               ? "; no policies are listed"
               : fmt::format("; listed: {}", excerpt(fmt::format("{}", fmt::join(names, ", "))));
  }
  change.fail(fmt::format("policy {} is not listed under policies{}",
                          tidemark::quoted_excerpt(name), hint));
}

void set_below(const Change& change, Value& node, std::size_t part, const std::string& path);

void set_in_policy(const Change& change, Value& policies) {
  if (!policies.is_null() && !policies.is_sequence()) {
    change.fail("'policies' is not a list, so no policy in it can be changed");
  }
  Value& item = listed_policy(change, policies);
  if (item.is_scalar()) {  // a bare name becomes a mapping to get parameters
    Value mapping = mapping_value(item.location);
    set_entry(mapping, item.scalar, item.location, mapping_value(item.location));
    item = std::move(mapping);
  }
  Value& parameters = item.entries.front().value;
  if (change.is_last(1)) {
    parameters = change.change.value;
    return;
  }
  set_below(change, parameters, 2, "policies." + change.parts[1]);
}

// Sets parts[part...] below `node`, whose path is `path`.
void set_below(const Change& change, Value& node, std::size_t part, const std::string& path) {
  if (node.is_null()) node = mapping_value(change.location());
  if (node.is_scalar() && has_long_form(path)) node = long_form(path, node);
  if (!node.is_mapping()) {
    change.fail(fmt::format("'{}' is a {} and has no key {}", excerpt(path),
                            node.is_sequence() ? "list" : "single value",
                            tidemark::quoted_excerpt(change.parts[part])));
  }
  const std::string& key = change.parts[part];
  if (change.is_last(part)) {
    set_entry(node, key, change.location(), change.change.value);
    return;
  }
  const std::string inner = path.empty() ? key : path + '.' + key;
  if (node.find(key) == nullptr) set_entry(node, key, change.location(), {});
  Value& child = *node.find(key);
  if (inner == "policies") return set_in_policy(change, child);
  set_below(change, child, part + 1, inner);
}

// Throws for a key that the sweep sets at every point: a value from the command line would change
// nothing.
void check_not_swept(const Change& change, const Value& document) {
  const Value* sweep = document.find("sweep");
  const Value* matrix = sweep == nullptr ? nullptr : sweep->find("matrix");
  if (matrix == nullptr || change.location().file != kOption) return;
  for (const Value::Entry& swept : matrix->entries) {
    const bool inside = change.change.key.starts_with(swept.key + '.');
    if (change.change.key != swept.key && !inside) continue;
    change.fail(
        fmt::format("the sweep sets {} at every point; change {}{} or leave the sweep out "
                    "with {} sweep=null",
                    tidemark::quoted_excerpt(swept.key), kMatrix, excerpt(swept.key), kOption));
  }
}

}  // namespace
}  // namespace override_detail

Override parse_override(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    override_detail::fail_option(
        1, "", fmt::format("expected KEY=VALUE, found {}", tidemark::quoted_excerpt(text)));
  }
  const std::string key(text.substr(0, equals));
  const std::string_view written = text.substr(equals + 1);
  const std::size_t column = equals + 2;
  if (override_detail::parts_of(key).empty()) {
    override_detail::fail_option(
        1, "",
        fmt::format("expected a key such as training.micro_batch before '=', found {}",
                    tidemark::quoted_excerpt(key)));
  }
  if (written.find_first_of("\r\n") != std::string_view::npos) {
    override_detail::fail_option(column, excerpt(key),
                                 "a value must fit on one line; write [a, b] or {key: value}");
  }
  Override change{.key = key, .value = {}};
  try {
    change.value = parse_document(written, std::string(override_detail::kOption));
  } catch (const UserError& error) {
    const int within = error.location().column > 0 ? error.location().column - 1 : 0;
    override_detail::fail_option(column + static_cast<std::size_t>(within), excerpt(key),
                                 error.problem());
  }
  override_detail::shift_columns(change.value, static_cast<int>(column) - 1);
  const std::size_t first = written.find_first_not_of(" \t");
  if (first == std::string_view::npos || written[first] == '#') {
    override_detail::fail_option(column, excerpt(key),
                                 "a value is missing after '='; null stands for the default");
  }
  return change;
}

void apply_override(Value& document, const Override& change) {
  const override_detail::Change path{.change = change,
                                     .parts = override_detail::parts_of(change.key)};
  if (path.parts.empty()) path.fail("expected a key such as training.micro_batch");
  override_detail::check_not_swept(path, document);
  override_detail::set_below(path, document, 0, {});
}

Value without_sweep(Value document) {
  std::erase_if(document.entries, [](const Value::Entry& entry) { return entry.key == "sweep"; });
  return document;
}

Value point_document(const Value& document, std::span<const Override> changes) {
  Value point = without_sweep(document);
  for (const Override& change : changes)
    apply_override(point, change);
  return point;
}

}  // namespace tidemark
