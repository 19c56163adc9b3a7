// SHA-1 (FIPS 180-4), to compare long lists of names by a short one; not for security.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tidemark {

class Sha1 {
 public:
  void update(std::string_view bytes);
  [[nodiscard]] std::string hex() const;  // 40 digits, for everything added so far

 private:
  void add_block();
  std::array<std::uint32_t, 5> state_{0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
  std::array<std::uint8_t, 64> block_{};
  std::size_t used_ = 0;
  std::uint64_t length_ = 0;  // bytes
};

}  // namespace tidemark
