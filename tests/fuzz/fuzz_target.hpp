// What reads files of others, each as a function of a file's bytes: for libFuzzer (fuzz_main.cpp)
// and for the tests, which run the seeds, the regressions and some mutations of both
// (fuzz_seeds_test.cpp).
//
// A target accepts every sequence of bytes. A UserError is an answer; any other exception, a crash,
// a finding of a sanitizer, 20 s or 2 GiB are faults.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/read/scenario.hpp"

namespace tidemark::fuzz {

struct FuzzTarget {
  std::string_view name;  // also the folder of tests/fuzz/regressions
  // Files of the repository that it reads, as patterns relative to its root; '*' stands for a part
  // of a file's name.
  std::vector<std::string_view> seeds;
  std::vector<std::string> texts;  // further seeds
  void (*read)(const std::string& bytes) = nullptr;
};

[[nodiscard]] std::span<const FuzzTarget> fuzz_targets();
// Throws std::invalid_argument, with the names that there are.
[[nodiscard]] const FuzzTarget& fuzz_target(std::string_view name);

// Reads the bytes with the target. Returns whether they were accepted: false is a UserError.
bool run_target(const FuzzTarget& target, const std::string& bytes);

// Returns the contents of the target's seeds and regressions below the root of the repository.
[[nodiscard]] std::vector<std::string> seeds_of(const FuzzTarget& target, const std::string& root);

// The path of a file with these bytes, for readers that take a path; the next call of this process
// replaces it. `name` is the file's name in a folder that is removed at exit.
[[nodiscard]] std::string file_with(const std::string& bytes, const std::string& name);

// The policies, allocators and profiles that Tidemark ships; shared by all targets.
[[nodiscard]] const Environment& environment();

// The targets of each file in targets/.
[[nodiscard]] std::vector<FuzzTarget> document_targets();
[[nodiscard]] std::vector<FuzzTarget> table_targets();
[[nodiscard]] std::vector<FuzzTarget> recording_targets();
[[nodiscard]] std::vector<FuzzTarget> step_targets();

}  // namespace tidemark::fuzz
