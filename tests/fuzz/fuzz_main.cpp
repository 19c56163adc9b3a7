// libFuzzer's entry points: tidemark_fuzz --target=NAME [libFuzzer's own options] CORPUS...
//   --list           the names of the targets
//   --write=FOLDER   writes the target's seeds there and ends
// libFuzzer leaves options that begin with two dashes alone.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz_target.hpp"

namespace {

const tidemark::fuzz::FuzzTarget* chosen = nullptr;

void write_seeds(const std::string& folder) {
  std::filesystem::create_directories(folder);
  std::size_t number = 0;
  for (const std::string& seed : tidemark::fuzz::seeds_of(*chosen, TIDEMARK_SOURCE_DIR))
    std::ofstream(folder + "/seed-" + std::to_string(number++), std::ios::binary) << seed;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view kTarget = "--target=";
  constexpr std::string_view kWrite = "--write=";
  std::string write;
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = (*argv)[i];
    if (argument == "--list") {
      for (const tidemark::fuzz::FuzzTarget& target : tidemark::fuzz::fuzz_targets())
        std::printf("%s\n", std::string(target.name).c_str());
      std::exit(0);
    }
    try {
      if (argument.starts_with(kTarget))
        chosen = &tidemark::fuzz::fuzz_target(argument.substr(kTarget.size()));
    } catch (const std::invalid_argument& error) {
      std::fprintf(stderr, "%s\n", error.what());
      std::exit(2);
    }
    if (argument.starts_with(kWrite)) write = argument.substr(kWrite.size());
  }
  if (chosen == nullptr) {
    std::fprintf(stderr, "give --target=NAME; --list names them\n");
    std::exit(2);
  }
  if (!write.empty()) {
    write_seeds(write);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  // Any exception but a UserError ends the process, which libFuzzer reports as a finding.
  tidemark::fuzz::run_target(*chosen, bytes);
  return 0;
}
