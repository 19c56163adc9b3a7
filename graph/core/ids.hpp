// Dense 32-bit identifiers and the tables they index.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <vector>

namespace tidemark {

// The position of an entity in its table. Ids of different kinds do not convert into each other.
template <class Tag>
struct Id {
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  std::uint32_t value = kNone;

  constexpr Id() = default;
  constexpr explicit Id(std::uint32_t v) : value(v) {}
  constexpr explicit Id(std::size_t v) : value(static_cast<std::uint32_t>(v)) {}

  [[nodiscard]] constexpr bool valid() const { return value != kNone; }
  [[nodiscard]] constexpr std::size_t index() const { return value; }
  friend constexpr bool operator==(Id, Id) = default;
  friend constexpr auto operator<=>(Id a, Id b) { return a.value <=> b.value; }
};

using StorageId = Id<struct StorageTag>;  // memory that the model owns; views share it
using TensorId = Id<struct TensorTag>;    // a typed, shaped view of a storage
using ParameterId = Id<struct ParameterTag>;
using NodeId = Id<struct NodeTag>;              // an autograd-level node of the forward graph
using OperatorId = Id<struct OperatorTag>;      // a kernel of the training graph
using LayerId = Id<struct LayerTag>;            // a module that users name: "h.3", "layer4.1"
using Position = Id<struct PositionTag>;        // a place in the program order
using GapId = Id<struct GapTag>;                // an interval between two touches of one storage
using AllocationId = Id<struct AllocationTag>;  // one allocation of the step program

// A table with one T per id.
template <class I, class T>
class IdVector {
 public:
  IdVector() = default;
  explicit IdVector(std::size_t count, const T& value = T()) : items_(count, value) {}

  [[nodiscard]] decltype(auto) operator[](I id) { return items_[id.index()]; }
  [[nodiscard]] decltype(auto) operator[](I id) const { return items_[id.index()]; }
  [[nodiscard]] std::size_t size() const { return items_.size(); }
  [[nodiscard]] bool empty() const { return items_.empty(); }
  [[nodiscard]] I end_id() const { return I(items_.size()); }
  [[nodiscard]] bool contains(I id) const { return id.index() < items_.size(); }

  I push_back(T item) {
    items_.push_back(std::move(item));
    return I(items_.size() - 1);
  }
  void reserve(std::size_t count) { items_.reserve(count); }
  void resize(std::size_t count, const T& value = T()) { items_.resize(count, value); }
  void assign(std::size_t count, const T& value) { items_.assign(count, value); }
  void clear() { items_.clear(); }
  void shrink_to_fit() { items_.shrink_to_fit(); }

  [[nodiscard]] T& back() { return items_.back(); }
  [[nodiscard]] const T& back() const { return items_.back(); }
  [[nodiscard]] auto begin() { return items_.begin(); }
  [[nodiscard]] auto end() { return items_.end(); }
  [[nodiscard]] auto begin() const { return items_.begin(); }
  [[nodiscard]] auto end() const { return items_.end(); }
  [[nodiscard]] T* data() { return items_.data(); }
  [[nodiscard]] const T* data() const { return items_.data(); }

 private:
  std::vector<T> items_;
};

// Iterates the ids of a table: `for (TensorId t : ids_of(graph.tensors))`.
template <class I>
class IdRange {
 public:
  struct Iterator {
    std::uint32_t at;
    I operator*() const { return I(at); }
    Iterator& operator++() {
      ++at;
      return *this;
    }
    friend bool operator==(Iterator, Iterator) = default;
  };
  IdRange(std::size_t first, std::size_t last)
      : first_(static_cast<std::uint32_t>(first)), last_(static_cast<std::uint32_t>(last)) {}
  [[nodiscard]] Iterator begin() const { return {first_}; }
  [[nodiscard]] Iterator end() const { return {last_}; }

 private:
  std::uint32_t first_;
  std::uint32_t last_;
};

template <class I, class T>
[[nodiscard]] IdRange<I> ids_of(const IdVector<I, T>& table) {
  return {0, table.size()};
}

}  // namespace tidemark

template <class Tag>
struct std::hash<tidemark::Id<Tag>> {
  std::size_t operator()(tidemark::Id<Tag> id) const noexcept { return id.value; }
};
