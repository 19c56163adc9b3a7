// The manual page, and what shells complete, both from the tree of commands.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace tidemark {

// Shells whose completions can be written.
inline constexpr std::string_view kShells[] = {"bash", "zsh", "fish"};

// Returns the manual page of a program and all its commands, as man(7) reads it.
[[nodiscard]] std::string manual_page(const CLI::App& program, std::string_view version);

// Returns the script with which a shell of kShells completes commands, options, the names that
// `tidemark list` has, and files.
[[nodiscard]] std::string shell_completion(const CLI::App& program, std::string_view shell);

}  // namespace tidemark
