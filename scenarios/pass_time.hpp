// How long the passes of compiling a scenario take.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tidemark {

// How long a pass took; `tidemark run --timing` prints them.
struct PassTime {
  std::string name;
  std::chrono::nanoseconds wall{};
};

// Runs a pass and notes how long it took.
template <class F>
auto run_pass(std::vector<PassTime>& passes, std::string_view name, F&& pass) {
  const auto begin = std::chrono::steady_clock::now();
  const auto note = [&] {
    passes.push_back({std::string(name), std::chrono::steady_clock::now() - begin});
  };
  if constexpr (std::is_void_v<decltype(pass())>) {
    pass();
    note();
  } else {
    auto result = pass();
    note();
    return result;
  }
}

}  // namespace tidemark
