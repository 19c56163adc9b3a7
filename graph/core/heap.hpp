// How the programs use the C library's heap.
#pragma once

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace tidemark {

// Makes the heap keep freed memory for this process: simulated steps allocate and free the same
// megabytes again and again, and giving them back to the system and clearing them each time takes a
// fifth of the time of large models. Called by main(), before anything else.
inline void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kLargestFromHeap = 32 << 20;  // bytes; glibc refuses more
  constexpr int kKept = 1 << 30;              // bytes
  mallopt(M_MMAP_THRESHOLD, kLargestFromHeap);
  mallopt(M_TRIM_THRESHOLD, kKept);
#endif
}

}  // namespace tidemark
