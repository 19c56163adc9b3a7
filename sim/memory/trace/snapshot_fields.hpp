// Fields of the dicts of a snapshot. Each function throws a UserError with the byte of the value
// that is not as expected.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/memory/trace/pickle_reader.hpp"

namespace tidemark {

// Returns the value of a key that must be there and of one kind.
[[nodiscard]] const PickleValue& field_of(const Pickle& pickle, const PickleValue& dict,
                                          std::string_view key, PickleKind kind);
// Returns the integer of a key that must be there, which may not be negative.
[[nodiscard]] std::int64_t number_of(const Pickle& pickle, const PickleValue& dict,
                                     std::string_view key);
// Returns the device whose entries of `device_traces` are to be read: `device`, or the only one
// that has any.
[[nodiscard]] int choose_device(const Pickle& pickle, const PickleValue& traces,
                                std::optional<int> device);
// Throws where `key` of an entry or a segment (`what`) names a pool of its own.
void refuse_private_pool(const Pickle& pickle, const PickleValue& dict, std::string_view key,
                         std::string_view what);

}  // namespace tidemark
