// Tensors are typed, strided views of storages (storage.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "graph/core/ids.hpp"
#include "graph/core/units.hpp"
#include "graph/ir/dtype.hpp"

namespace tidemark {

inline constexpr int kMaxRank = 8;

// Up to kMaxRank extents (or strides), outermost first. Kept inline: shapes are copied a lot.
class Extents {
 public:
  constexpr Extents() = default;
  constexpr Extents(std::initializer_list<std::int64_t> values) {
    for (std::int64_t v : values)
      push_back(v);
  }
  constexpr void push_back(std::int64_t v) { values_.at(static_cast<std::size_t>(rank_++)) = v; }
  [[nodiscard]] constexpr int rank() const { return rank_; }
  [[nodiscard]] constexpr std::int64_t operator[](int axis) const {
    return values_[static_cast<std::size_t>(axis < 0 ? axis + rank_ : axis)];
  }
  [[nodiscard]] constexpr std::int64_t& operator[](int axis) {
    return values_[static_cast<std::size_t>(axis < 0 ? axis + rank_ : axis)];
  }
  [[nodiscard]] constexpr const std::int64_t* begin() const { return values_.data(); }
  [[nodiscard]] constexpr const std::int64_t* end() const { return values_.data() + rank_; }
  friend constexpr bool operator==(const Extents& a, const Extents& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i) {
      if (a[i] != b[i]) return false;
    }
    return true;
  }

 private:
  std::array<std::int64_t, kMaxRank> values_{};
  int rank_ = 0;
};

using Shape = Extents;
using Strides = Extents;  // strides in elements; 0 where an axis is expanded

// Returns the number of elements; throws UserError when it does not fit into 62 bits.
[[nodiscard]] Elements element_count(const Shape& shape);
[[nodiscard]] Strides contiguous_strides(const Shape& shape);

// Returns strides of [batch, channels, spatial...] with the channels next to each other; of a shape
// of fewer than four axes contiguous ones.
[[nodiscard]] Strides channels_last_strides(const Shape& shape);
[[nodiscard]] std::string to_string(const Shape& shape);  // "[2, 128, 768]"

// A tensor is a value: views of gradients come and go without a table.
struct Tensor {
  StorageId storage;
  DType dtype = DType::kFloat32;
  Shape shape;
  Strides strides;
  bool requires_grad = false;

  [[nodiscard]] Elements elements() const { return element_count(shape); }
  [[nodiscard]] Bytes bytes() const { return bytes_of(dtype, elements()); }
  // Whether it is row-major without gaps, as torch.Tensor.is_contiguous() (axes of extent 1 do not
  // count).
  [[nodiscard]] bool is_contiguous() const;
  // Whether it is [batch, channels, spatial...] with the channels next to each other in memory
  // (torch.channels_last).
  [[nodiscard]] bool is_channels_last() const;
};

// Computes the strides under which a tensor of `shape` and `strides` can be seen as `target`
// without a copy (torch's computeStride). False when a copy is needed.
[[nodiscard]] bool view_strides(const Shape& shape, const Strides& strides, const Shape& target,
                                Strides& result);

}  // namespace tidemark
