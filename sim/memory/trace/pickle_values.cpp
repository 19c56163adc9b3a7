// Access to the values of a pickle, by their kind.
#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "sim/memory/trace/pickle_reader.hpp"

namespace tidemark {

void Pickle::fail(std::size_t offset, const std::string& problem) const {
  throw UserError({.file = path_}, {}, fmt::format("byte {}: {}", offset, problem));
}

void Pickle::expect(const PickleValue& value, PickleKind kind) const {
  if (value.kind() == kind) return;
  fail(value.offset(), fmt::format("expected {}, found {}", name_of(kind), name_of(value.kind())));
}

std::span<const PickleValue> Pickle::items(const PickleValue& list) const {
  expect(list, PickleKind::kList);
  return lists_[static_cast<std::size_t>(list.payload_)];
}

std::string_view Pickle::text(const PickleValue& value) const {
  expect(value, PickleKind::kText);
  const auto payload = static_cast<std::uint64_t>(value.payload_);
  return std::string_view(bytes_).substr(payload >> 32U, payload & 0xffffffffU);
}

// A key that was set twice has the last value.
const PickleValue* Pickle::find(const PickleValue& dict, std::string_view key) const {
  expect(dict, PickleKind::kDict);
  const auto& entries = dicts_[static_cast<std::size_t>(dict.payload_)];
  for (std::size_t i = entries.size(); i-- > 0;) {
    if (++looks_ > kFreeLooks + kLooksPerByte * bytes_.size()) {
      fail(dict.offset(),
           fmt::format("a file of {} bytes has its lists and dicts shared so often that they would "
                       "not end",
                       bytes_.size()));
    }
    if (entries[i].first.kind() == PickleKind::kText && text(entries[i].first) == key) {
      return &entries[i].second;
    }
  }
  return nullptr;
}

std::string_view name_of(PickleKind kind) {
  constexpr std::string_view kNames[] = {"None",           "a boolean", "an integer",
                                         "a huge integer", "a real",    "a text",
                                         "bytes",          "a list",    "a dict"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace tidemark
