#include "graph/core/sha1.hpp"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

namespace tidemark {

void Sha1::update(std::string_view bytes) {
  length_ += bytes.size();
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), block_.size() - used_);
    std::copy_n(bytes.begin(), count, block_.begin() + static_cast<std::ptrdiff_t>(used_));
    bytes.remove_prefix(count);
    used_ += count;
    if (used_ == block_.size()) add_block();
  }
}

void Sha1::add_block() {
  std::array<std::uint32_t, 80> w{};
  for (std::size_t i = 0; i < 16; ++i) {
    w[i] = std::uint32_t{block_[4 * i]} << 24 | std::uint32_t{block_[4 * i + 1]} << 16 |
           std::uint32_t{block_[4 * i + 2]} << 8 | std::uint32_t{block_[4 * i + 3]};
  }
  for (std::size_t i = 16; i < 80; ++i)
    w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  auto [a, b, c, d, e] = state_;
  for (std::size_t i = 0; i < 80; ++i) {
    std::uint32_t f = 0;
    std::uint32_t k = 0;
    if (i < 20) {
      f = (b & c) | (~b & d);
      k = 0x5A827999;
    } else if (i < 40) {
      f = b ^ c ^ d;
      k = 0x6ED9EBA1;
    } else if (i < 60) {
      f = (b & c) | (b & d) | (c & d);
      k = 0x8F1BBCDC;
    } else {
      f = b ^ c ^ d;
      k = 0xCA62C1D6;
    }
    const std::uint32_t next = std::rotl(a, 5) + f + e + k + w[i];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  state_[0] += a;
  state_[1] += b;
  state_[2] += c;
  state_[3] += d;
  state_[4] += e;
  used_ = 0;
}

std::string Sha1::hex() const {
  Sha1 last = *this;
  const std::uint64_t bits = length_ * 8;
  last.update("\x80");
  while (last.used_ != 56)
    last.update(std::string_view("\0", 1));
  std::string tail(8, '\0');
  for (std::size_t i = 0; i < 8; ++i)
    tail[i] = static_cast<char>(bits >> (56 - 8 * i) & 0xFF);
  last.update(tail);
  std::string text;
  for (const std::uint32_t word : last.state_)
    text += fmt::format("{:08x}", word);
  return text;
}

}  // namespace tidemark
