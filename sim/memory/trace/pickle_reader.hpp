// Python's pickle as data: containers, texts and numbers. Never executes anything: an opcode that
// would import a name or call something is an error, as is every other one that plain containers do
// not need.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/core/value.hpp"

namespace tidemark {

enum class PickleKind : std::uint8_t {
  kNone,
  kBoolean,
  kInteger,
  kHugeInteger,  // more than 63 bits
  kReal,
  kText,
  kBytes,
  kList,  // a list or a tuple
  kDict,
};
// Returns "a list", "a dict", ...
[[nodiscard]] std::string_view name_of(PickleKind kind);

// A value that notes its place in the file, only for errors: containers may be shared, even with
// themselves.
class PickleValue {
 public:
  PickleValue() = default;
  PickleValue(PickleKind kind, std::size_t offset, std::int64_t payload = 0)
      : payload_(payload), offset_(static_cast<std::uint32_t>(offset)), kind_(kind) {}

  [[nodiscard]] PickleKind kind() const { return kind_; }
  [[nodiscard]] std::size_t offset() const { return offset_; }  // offset of its opcode
  [[nodiscard]] std::int64_t integer() const { return payload_; }
  [[nodiscard]] double real() const { return std::bit_cast<double>(payload_); }

 private:
  friend class Pickle;
  friend class PickleParser;
  std::int64_t payload_ = 0;  // a number, or the place of the text or the container
  std::uint32_t offset_ = 0;
  PickleKind kind_ = PickleKind::kNone;
};

class Pickle {
 public:
  // A snapshot is larger than other files that are held in memory: each allocation has the frames
  // of a stack.
  static constexpr std::size_t kLargestFile = 8 * kMaxFileBytes;  // bytes, unpacked
  static constexpr std::size_t kMostValues = std::size_t{1} << 27;
  // Limits that no snapshot of that size exceeds, so that a small file costs little. The dict of a
  // stack frame, the densest value there is, takes 16 bytes for 8 values. The first bytes and
  // values are free.
  static constexpr std::size_t kFreeBytes = std::size_t{1} << 24;  // unpacked
  static constexpr std::size_t kMostUnpacked = 100;                // bytes for each packed one
  static constexpr std::size_t kFreeContainers = std::size_t{1} << 20;
  static constexpr std::size_t kContainerBytes = 8;
  static constexpr std::size_t kFreeLooks = std::size_t{1} << 20;
  static constexpr std::size_t kLooksPerByte = 32;  // keys looked at by find()

  // Reads a file of protocol 2 to 5, gzip or not. Throws UserError with the byte at which it cannot
  // be read and why.
  explicit Pickle(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const PickleValue& top() const { return top_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_.size(); }  // unpacked
  // The accessors throw a UserError with the byte of the value when it is of another kind.
  [[nodiscard]] std::span<const PickleValue> items(const PickleValue& list) const;
  // Returns the value of a key; null when it is absent. Also throws once more keys have been looked
  // at than a file of this size has without containers that are shared.
  [[nodiscard]] const PickleValue* find(const PickleValue& dict, std::string_view key) const;
  [[nodiscard]] std::string_view text(const PickleValue& value) const;

  // Throws a UserError about a value.
  [[noreturn]] void fail(std::size_t offset, const std::string& problem) const;

 private:
  friend class PickleParser;

  void expect(const PickleValue& value, PickleKind kind) const;

  std::string path_;
  std::string bytes_;
  PickleValue top_;
  std::vector<std::vector<PickleValue>> lists_;
  std::vector<std::vector<std::pair<PickleValue, PickleValue>>> dicts_;
  mutable std::size_t looks_ = 0;
};

}  // namespace tidemark
