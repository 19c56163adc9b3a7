// Writes protocol buffers' wire format, as far as a trace needs it. Messages are written from the
// inside out, so that each knows its length.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tidemark {

class ProtobufMessage {
 public:
  void varint(std::uint32_t field, std::uint64_t value) {
    key(field, kVarint);
    put(value);
  }
  // Writes int64 and enums; negative numbers take ten bytes, as the format says.
  void integer(std::uint32_t field, std::int64_t value) {
    varint(field, static_cast<std::uint64_t>(value));
  }
  void fixed64(std::uint32_t field, std::uint64_t value) {
    key(field, kFixed64);
    for (int byte = 0; byte < 8; ++byte)
      bytes_ += static_cast<char>(value >> (8 * byte) & 0xffU);
  }
  void text(std::uint32_t field, std::string_view value) {  // UTF-8
    key(field, kLengthDelimited);
    put(value.size());
    bytes_ += value;
  }
  void message(std::uint32_t field, const ProtobufMessage& value) { text(field, value.bytes_); }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  void clear() { bytes_.clear(); }

 private:
  enum Wire : std::uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2 };

  void key(std::uint32_t field, Wire wire) { put(std::uint64_t{field} << 3U | wire); }
  void put(std::uint64_t value) {
    for (; value >= 0x80U; value >>= 7U)
      bytes_ += static_cast<char>((value & 0x7fU) | 0x80U);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace tidemark
