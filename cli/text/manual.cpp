#include "cli/text/manual.hpp"

#include <algorithm>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace tidemark {
namespace manual_detail {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  const auto all = app.get_subcommands([](const CLI::App*) { return true; });
  return {all.begin(), all.end()};
}

// Escapes a text for man(7): backslashes, hyphens of options, and control lines.
std::string roff(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool starts_line = i == 0 || text[i - 1] == '\n';
    if (starts_line && (text[i] == '.' || text[i] == '\'')) result += "\\&";
    if (text[i] == '\\') {
      result += "\\e";
    } else if (text[i] == '-') {
      result += "\\-";
    } else {
      result += text[i];
    }
  }
  return result;
}

// Returns the name of an option's type, without what its checks add to that.
std::string type_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(':'));
}

// Returns the words that an option may be, which its type lists as in "eager|ignore|banish"; none
// where that names a kind of value.
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = type_of(option);
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789_|";
  if (type.find('|') == std::string::npos || type.find_first_not_of(kLetters) != std::string::npos)
    return {};
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= type.size();) {
    const std::size_t end = std::min(type.find('|', begin), type.size());
    words.push_back(type.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// Returns "-o, --output DIR", or the name of a positional.
std::string usage_of(const CLI::Option& option) {
  if (option.get_positional()) {
    const std::string words = fmt::format("{}", fmt::join(choices_of(option), "|"));
    return option.get_name(true) + (words.empty() ? "" : ": " + words);
  }
  std::string text;
  for (const std::string& name : option.get_snames())
    text += (text.empty() ? "-" : ", -") + name;
  for (const std::string& name : option.get_lnames())
    text += (text.empty() ? "--" : ", --") + name;
  const bool takes_value = option.get_items_expected_max() > 0;
  return takes_value ? fmt::format("{} {}", text, type_of(option)) : text;
}

void add_command(std::string& text, const CLI::App& command, const std::string& path) {
  const std::string name = path + ' ' + command.get_name();
  text += fmt::format(".SS {}\n{}\n", roff(name), roff(command.get_description()));
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_name() == "--help" || option->get_name() == "-h,--help") continue;
    text +=
        fmt::format(".TP\n.B {}\n{}\n", roff(usage_of(*option)), roff(option->get_description()));
  }
  if (!command.get_footer().empty()) {
    text += fmt::format(".PP\n.nf\n{}\n.fi\n", roff(command.get_footer()));
  }
  for (const CLI::App* child : commands_of(command))
    add_command(text, *child, name);
}

// Returns the words that may follow the command: its commands and its options.
std::vector<std::string> words_after(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::App* child : commands_of(command))
    words.push_back(child->get_name());
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames())
      words.push_back("--" + name);
  }
  return words;
}

// Calls f(path, command) for the program and everything below it; the path has blanks.
template <class F>
void for_each_command(const CLI::App& app, const std::string& path, F&& f) {
  f(path, app);
  for (const CLI::App* child : commands_of(app))
    for_each_command(*child, path + ' ' + child->get_name(), f);
}

// Returns bash's cases of "COMMAND PREVIOUS" for which only the words of a set may follow: those of
// an option's value, and a first argument.
std::string choice_cases(const std::string& path, const CLI::App& command) {
  std::string cases;
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string> choices = choices_of(*option);
    if (choices.empty()) continue;
    std::vector<std::string> before;
    for (const std::string& name : option->get_lnames())
      before.push_back("--" + name);
    for (const std::string& name : option->get_snames())
      before.push_back("-" + name);
    std::vector<std::string> words = choices;
    if (option->get_positional()) {
      before.push_back(command.get_name());
      const std::vector<std::string> others = words_after(command);
      words.insert(words.end(), others.begin(), others.end());
    }
    for (const std::string& previous : before) {
      cases += fmt::format("    \"{} {}\") files= words=\"{}\" ;;\n", path, previous,
                           fmt::join(words, " "));
    }
  }
  return cases;
}

// Names of presets, profiles and so on stand at the beginning of the indented lines of a list.
constexpr std::string_view kNamesOf =
    R"(tidemark list "$1" 2>/dev/null | sed -n 's/^  \([^ ,]*\)  .*/\1/p')";

std::string bash_completion(const CLI::App& program) {
  std::string cases;
  std::string choices;
  for_each_command(program, "tidemark", [&](const std::string& path, const CLI::App& command) {
    choices += choice_cases(path, command);
    cases +=
        fmt::format("    \"{}\") words=\"{}\" ;;\n", path, fmt::join(words_after(command), " "));
  });
  std::string groups;
  for (const CLI::App* command : commands_of(program)) {
    if (!commands_of(*command).empty()) groups += (groups.empty() ? "" : "|") + command->get_name();
  }
  return fmt::format(R"bash(# bash completion of tidemark; written by `tidemark completion bash`
_tidemark_names() {{
  {}
}}
_tidemark() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} words= at called=tidemark files=yes
  for ((at = 1; at < COMP_CWORD; ++at)); do
    case ${{COMP_WORDS[at]}} in
      -*) break ;;
    esac
    called+=" ${{COMP_WORDS[at]}}"
    case ${{COMP_WORDS[1]}} in
      {}) ((at == 2)) && break ;;
      *) break ;;
    esac
  done
  case "$called $previous" in
{}    *" --gpu"|*" --device") words=$(_tidemark_names gpus) ;;
    *" --policy") words=$(_tidemark_names policies) ;;
    *) case $called in
{}    esac ;;
  esac
  case $called in
    "tidemark replay"|tidemark) files= ;;
    "tidemark list") ;;
    *) [[ -z $files || $previous == -* ]] || words+=" $(_tidemark_names models)" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  [[ -z $files ]] || COMPREPLY+=($(compgen -f -- "$word"))
}}
complete -o filenames -F _tidemark tidemark
)bash",
                     kNamesOf, groups, choices, cases);
}

std::string zsh_completion(const CLI::App& program) {
  return "#compdef tidemark\n# zsh completion of tidemark; written by `tidemark completion zsh`\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash_completion(program);
}

// Returns a text between single quotes, as fish reads it.
std::string fish_text(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + "'";
}

// Adds the options of a command, and the words of a set that its arguments have.
void add_fish_options(std::string& text, const CLI::App& command, const std::string& within) {
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string> choices = choices_of(*option);
    const std::string set = fmt::format("'{}'", fmt::join(choices, " "));
    if (option->get_positional() && !choices.empty()) {
      text += fmt::format("complete -c tidemark -n {} -f -a {}\n", within, set);
    }
    for (const std::string& word : option->get_lnames()) {
      const bool names_gpu = word == "gpu" || word == "device";
      const bool takes_value = option->get_items_expected_max() > 0;
      const std::string values = !choices.empty()   ? " -f -a " + set
                                 : names_gpu        ? " -a '(__tidemark_names gpus)'"
                                 : word == "policy" ? " -a '(__tidemark_names policies)'"
                                                    : "";
      text += fmt::format("complete -c tidemark -n {} -l {}{}{} -d {}\n", within, word,
                          takes_value ? " -r" : "", values, fish_text(option->get_description()));
    }
  }
}

std::string fish_completion(const CLI::App& program) {
  std::string text =
      "# fish completion of tidemark; written by `tidemark completion fish`\n"
      "function __tidemark_names\n  tidemark list $argv[1] 2>/dev/null | string replace -r -f "
      "'^  ([^ ,]+)  .*' '$1'\nend\n";
  for (const CLI::App* command : commands_of(program)) {
    const std::string& name = command->get_name();
    text += fmt::format("complete -c tidemark -n __fish_use_subcommand -f -a {} -d {}\n", name,
                        fish_text(command->get_description()));
    const std::string seen = "__fish_seen_subcommand_from " + name;
    for (const CLI::App* child : commands_of(*command)) {
      const bool only = command->get_require_subcommand_min() > 0;  // no file may follow
      text += fmt::format("complete -c tidemark -n '{}'{} -a {} -d {}\n", seen, only ? " -f" : "",
                          child->get_name(), fish_text(child->get_description()));
      add_fish_options(
          text, *child,
          fmt::format("'{}; and __fish_seen_subcommand_from {}'", seen, child->get_name()));
    }
    add_fish_options(text, *command, fmt::format("'{}'", seen));
  }
  return text;
}

}  // namespace
}  // namespace manual_detail

std::string manual_page(const CLI::App& program, std::string_view version) {
  using manual_detail::roff;
  std::string text = fmt::format(
      ".TH TIDEMARK 1 \"\" \"tidemark {}\" \"User Commands\"\n.SH NAME\ntidemark \\- GPU memory "
      "over "
      "a deep\\-learning training step, simulated\n.SH SYNOPSIS\n.B tidemark\n.I "
      "COMMAND\n[OPTION]..."
      "\n.SH DESCRIPTION\n{}\n.SH COMMANDS\n",
      roff(version), roff(program.get_description()));
  for (const CLI::App* command : manual_detail::commands_of(program))
    manual_detail::add_command(text, *command, "tidemark");
  text += fmt::format(".SH EXAMPLES\n.nf\n{}\n.fi\n", roff(program.get_footer()));
  return text;
}

std::string shell_completion(const CLI::App& program, std::string_view shell) {
  if (shell == "zsh") return manual_detail::zsh_completion(program);
  if (shell == "fish") return manual_detail::fish_completion(program);
  return manual_detail::bash_completion(program);
}

}  // namespace tidemark
