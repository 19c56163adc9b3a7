// Paths of the checkout and of what was built from it. Known to one source file only: compiled
// tests are the same in every checkout.
#pragma once

#include <string>
#include <string_view>

namespace tidemark::test {

// Returns the path of `below`, a path relative to the root of the repository; without it the root.
[[nodiscard]] std::string source_path(std::string_view below = {});
// Returns the path of `below`, a path relative to tests/data; without it that folder.
[[nodiscard]] std::string data_path(std::string_view below = {});
// The folder that the checkout is built in.
[[nodiscard]] std::string build_path();
// The program `tidemark`.
[[nodiscard]] std::string program_path();
// The policy that is compiled out of tree (tests/plugin).
[[nodiscard]] std::string example_plugin_path();
// The rewrite that is compiled out of tree (tests/plugin/rewrite).
[[nodiscard]] std::string example_rewrite_path();
// The node_modules that the report is built with; absent without npm.
[[nodiscard]] std::string npm_packages_path();

}  // namespace tidemark::test
