// Runs independent pieces of work on a few threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace tidemark {

// Calls work(i) for each i below `count`, the calling thread included. Where the system cannot
// start as many threads, those that run do all the work. The first exception ends it and is thrown
// again.
template <class Work>
void for_each_parallel(std::size_t count, int threads, Work&& work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (failure == nullptr) failure = std::current_exception();
        next = count;
        return;
      }
    }
  };
  const auto workers = static_cast<std::size_t>(std::max(1, threads));
  std::vector<std::jthread> pool;
  try {
    for (std::size_t t = 1; t < std::min(workers, count); ++t)
      pool.emplace_back(run);
  } catch (const std::system_error&) {
    // The threads that run already, or this one alone, do the work.
  }
  run();
  pool.clear();  // joins the threads
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace tidemark
