// Runs a pass of a step: times it, runs it, checks its result.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tidemark {

// The time of a pass; `tidemark run --timing` prints them.
struct PassTime {
  std::string name;
  std::chrono::nanoseconds wall{};
};

// The check for passes whose result has no invariant of its own.
struct Unchecked {
  template <class... Result>
  void operator()(const Result&...) const {}
};

// Runs `pass`, notes how long it took, and lets `check` look at its result (at nothing where the
// pass changes something in place). A check throws InternalError; its time is not the pass's.
template <class F, class Check = Unchecked>
auto run_pass(std::vector<PassTime>& passes, std::string_view name, F&& pass, Check&& check = {}) {
  const auto begin = std::chrono::steady_clock::now();
  const auto note = [&] {
    passes.push_back({std::string(name), std::chrono::steady_clock::now() - begin});
  };
  if constexpr (std::is_void_v<decltype(pass())>) {
    pass();
    note();
    check();
  } else {
    auto result = pass();
    note();
    check(result);
    return result;
  }
}

}  // namespace tidemark
