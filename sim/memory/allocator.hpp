// The interface of an allocator to the engine. Allocators are template parameters of the event
// loop, so this is a concept rather than a base class: no allocation makes a virtual call.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "graph/core/ids.hpp"
#include "graph/core/units.hpp"

namespace tidemark {

// The capacity of memory without a limit: no quantity is larger.
inline constexpr Bytes kUnlimited{kLargestQuantity};

struct AllocationResult {
  bool ok = false;
  int device_mallocs = 0;  // number of cudaMalloc calls, successful or not
  int device_frees = 0;    // cudaFree calls, where the allocator made room by itself
};

// reserve(allocations): room for this many allocations; the only call that may allocate host
// memory. allocate(allocation, bytes): more than 0 bytes; fails without side effects on the
// caller's allocations. allocate_again(allocation, bytes): after allocate() has failed and
// release_cached() was called. free(allocation): the memory can be handed out again at once.
// defer_free(allocation): freed by the program, but a stream may still use it: active until free().
// release_cached(): gives unused memory back to the device; returns the number of cudaFree calls.
// allocated(): handed out, rounded as the allocator rounds; active(): allocated + deferred;
// reserved(): taken from the device. inactive_split(): free bytes that cannot go back to the
// device, because they share a segment with allocations that are in use. What is neither active nor
// this is whole free segments.
template <class A>
concept Allocator = requires(A a, const A c, AllocationId allocation, Bytes bytes, std::size_t n) {
  {a.reserve(n)};
  { a.allocate(allocation, bytes) } -> std::same_as<AllocationResult>;
  { a.allocate_again(allocation, bytes) } -> std::same_as<AllocationResult>;
  {a.free(allocation)};
  {a.defer_free(allocation)};
  { a.release_cached() } -> std::same_as<int>;
  { c.allocated() } -> std::same_as<Bytes>;
  { c.active() } -> std::same_as<Bytes>;
  { c.reserved() } -> std::same_as<Bytes>;
  { c.inactive_split() } -> std::same_as<Bytes>;
  { c.address(allocation) } -> std::same_as<Bytes>;
};

// A piece of a segment, as an eviction policy that looks at addresses walks over it.
// is_free(): nothing is in it, and no stream still uses it.
// serves(bytes): a request of this size may be met from the piece's part of the memory.
// previous, next: its neighbours in the segment; null at the segment's ends.
template <class P>
concept SegmentPiece = requires(const P piece, Bytes bytes) {
  { piece.is_free() } -> std::same_as<bool>;
  { piece.serves(bytes) } -> std::same_as<bool>;
  { piece.address } -> std::convertible_to<Bytes>;
  { piece.size } -> std::convertible_to<Bytes>;
  { piece.previous } -> std::convertible_to<const P*>;
  { piece.next } -> std::convertible_to<const P*>;
};

// An allocator that cuts segments into pieces. given(allocation) returns the piece that an
// allocation was given, null while it has none.
template <class A>
concept SegmentAllocator = Allocator<A> && requires(const A c, AllocationId allocation) {
  {c.given(allocation)};
  requires SegmentPiece<std::remove_cvref_t<decltype(*c.given(allocation))>>;
};

}  // namespace tidemark
