// The program as other people get it: installed below a prefix, and as Debian packages.
#include <cstdlib>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include "tests/cli/command_runner.hpp"
#include "tests/support/instrumented.hpp"

namespace tidemark::testing::install_test {
namespace {

bool has(const std::string& program) {
  return std::system(fmt::format("command -v {} >/dev/null 2>&1", program).c_str()) == 0;
}

// Runs a command of the shell in the workspace. Its output is in the file `log` there.
bool succeeds(const Workspace& workspace, const std::string& command) {
  const std::string line =
      fmt::format("cd '{}' && ({}) >log 2>&1", workspace.folder().string(), command);
  if (std::system(line.c_str()) == 0) return true;
  MESSAGE(workspace.read("log"));
  return false;
}

constexpr const char* kProject =
    "cmake_minimum_required(VERSION 3.25)\n"
    "project(mine LANGUAGES CXX)\n"
    "find_package(tidemark 0.1 REQUIRED COMPONENTS plugin)\n"
    "add_library(mine MODULE keep_first_blocks.cpp)\n"
    "target_link_libraries(mine PRIVATE tidemark::plugin)\n";

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a policy is built against an installation, which finds its own data") {
    if (!has("cmake")) {
      MESSAGE("skipped: needs cmake");
      return;
    }
    const Workspace workspace;
    REQUIRE(succeeds(
        workspace, fmt::format("cmake --install '{}' --prefix \"$PWD/usr\"", test::build_path())));
    for (const std::string file :
         {"share/man/man1/tidemark.1", "share/bash-completion/completions/tidemark",
          "share/zsh/site-functions/_tidemark", "share/fish/vendor_completions.d/tidemark.fish",
          "share/doc/tidemark/NOTICES.md", "share/tidemark/scenarios/scenario.schema.json"}) {
      CAPTURE(file);
      CHECK(workspace.exists("usr/" + file));
    }
    // Moved: neither the prefix nor the checkout is needed.
    std::filesystem::rename(workspace.folder() / "usr", workspace.folder() / "moved");
    workspace.write("CMakeLists.txt", kProject);
    std::filesystem::copy(test::source_path("tests/plugin/keep_first_blocks.cpp"),
                          workspace.folder());
    REQUIRE(succeeds(workspace,
                     "cmake -B build -DCMAKE_PREFIX_PATH=\"$PWD/moved\" && cmake --build build"));
    REQUIRE(succeeds(workspace,
                     "moved/bin/tidemark run moved/share/tidemark/scenarios/basics/minimal.yaml "
                     "--no-chart -s policies='[{keep_first_blocks: {keep: 2}}]' "
                     "--plugin build/libmine.so"));
    CHECK(contains(workspace.read("log"), "keep_first_blocks"));
    workspace.write("moved/share/tidemark/hwprofiles/here-only.yaml",
                    "extends: h100-sxm-80gb\nname: here-only\n");
    REQUIRE(succeeds(workspace, "moved/bin/tidemark describe here-only"));
  }

  TEST_CASE("a bare Debian installs the package and runs the quickstart") {
    if (geteuid() != 0 || !has("debootstrap") || !has("cpack")) {
      MESSAGE("skipped: needs root, debootstrap and cpack");
      return;
    }
    const Workspace workspace;
    REQUIRE(succeeds(workspace, fmt::format("'{}' '{}' \"$PWD/bare\"",
                                            test::source_path("tests/cli/debian_package.sh"),
                                            test::build_path())));
    const std::string log = workspace.read("log");
    CHECK(contains(log, "checkpoint_every(period 1)"));
    CHECK(contains(log, "exit code 0"));
  }

  // Every library stands in the bundle: its program runs in a system that has no file but those.
  TEST_CASE("the bundle runs where nothing else is, wherever it is unpacked") {
    const Workspace workspace;
    REQUIRE(
        succeeds(workspace, fmt::format("'{}' '{}' bundle.tar.gz && mkdir root && tar -C root "
                                        "-xzf bundle.tar.gz && mv root/tidemark-* root/here",
                                        test::source_path("cmake/bundle"), test::build_path())));
    const std::string scenario = "/share/tidemark/scenarios/quickstart.yaml --no-chart";
    REQUIRE(succeeds(workspace,
                     "ln -s root/here/bin/tidemark link && ./link run root/here" + scenario));
    const std::string log = workspace.read("log");
    CHECK(contains(log, "checkpoint_every(period 1)"));
    if (geteuid() != 0 || !has("chroot")) {
      MESSAGE("skipped in part: chroot needs root");
      return;
    }
    if (test::kInstrumented) {
      MESSAGE("skipped in part: LeakSanitizer needs /proc, which is not there");
      return;
    }
    REQUIRE(succeeds(workspace,
                     "chroot root /here/lib/tidemark/loader --argv0 /here/bin/tidemark "
                     "--library-path /here/lib/tidemark /here/lib/tidemark/tidemark run /here" +
                         scenario));
    CHECK(workspace.read("log") == log);
  }
}

}  // namespace tidemark::testing::install_test
