// Tables of many megabytes that are read in no order: in pages of 2 MiB, where the system has
// them, a core finds the place of each entry without a walk through its page tables.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace tidemark {

// Allocates small tables as std::allocator does.
template <class T>
class LargePages {
 public:
  using value_type = T;

  LargePages() = default;
  template <class U>
  LargePages(const LargePages<U>& /*other*/) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] T* allocate(std::size_t count) {
    if (!is_large(count)) return std::allocator<T>().allocate(count);
    const std::size_t bytes = (count * sizeof(T) + kPage - 1) / kPage * kPage;
    void* const memory = std::aligned_alloc(kPage, bytes);
    if (memory == nullptr) throw std::bad_alloc();
#ifdef __linux__
    // A system that cannot leaves the table in small pages.
    static_cast<void>(madvise(memory, bytes, MADV_HUGEPAGE));
#endif
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t count) {
    if (!is_large(count)) return std::allocator<T>().deallocate(memory, count);
    std::free(memory);
  }
  friend bool operator==(const LargePages&, const LargePages&) {
    return true;
  }

 private:
  static constexpr std::size_t kPage = std::size_t{2} << 20;
  static_assert(alignof(T) <= kPage);

  [[nodiscard]] static bool is_large(std::size_t count) {
    return count >= kPage / sizeof(T);
  }
};

template <class T>
using LargeTable = std::vector<T, LargePages<T>>;

}  // namespace tidemark
