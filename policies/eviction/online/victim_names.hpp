// SHA-1 over the names of evicted storages, joined by commas: a long list is compared by a short
// one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "graph/core/sha1.hpp"
#include "policies/eviction/online/eviction_log.hpp"

namespace tidemark {

class VictimNames {
 public:
  // The log must live longer.
  explicit VictimNames(const EvictionLog& log) : log_(log) {}

  void add(std::uint32_t storage) {
    waiting_[count_++] = storage;
    if (count_ == waiting_.size()) hash_waiting();
  }
  // Returns the 40 digits for all that was added so far.
  [[nodiscard]] std::string hex() {
    hash_waiting();
    return hash_.hex();
  }

 private:
  // Victims lie anywhere in the log: looked up one after the other, the memory is waited for once
  // and not for each.
  void hash_waiting() {
    std::array<std::string_view, kAtOnce> names;
    for (std::size_t i = 0; i < count_; ++i) {
      names[i] = log_.name(waiting_[i]);
      __builtin_prefetch(names[i].data());
    }
    text_.clear();
    for (std::size_t i = 0; i < count_; ++i) {
      if (i > 0 || !first_) text_ += ',';
      text_ += names[i];
    }
    first_ = first_ && count_ == 0;
    hash_.update(text_);
    count_ = 0;
  }

  static constexpr std::size_t kAtOnce = 64;

  const EvictionLog& log_;
  Sha1 hash_;
  std::array<std::uint32_t, kAtOnce> waiting_{};  // victims that are not hashed yet
  std::size_t count_ = 0;
  bool first_ = true;  // nothing is hashed yet
  std::string text_;
};

}  // namespace tidemark
