// tidemark: the command line. Catches what is thrown and turns it into exit codes.
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <CLI/CLI.hpp>
#include <execinfo.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "cli/commands/calibrate.hpp"
#include "cli/commands/command.hpp"
#include "cli/commands/compare.hpp"
#include "cli/commands/diff.hpp"
#include "cli/commands/manual.hpp"
#include "cli/commands/plan.hpp"
#include "cli/commands/price.hpp"
#include "cli/commands/recipe.hpp"
#include "cli/commands/replay_allocator.hpp"
#include "cli/commands/replay_eviction.hpp"
#include "cli/text/console.hpp"
#include "graph/core/decoder.hpp"
#include "graph/core/errors.hpp"
#include "graph/core/heap.hpp"
#include "plots/table.hpp"
#include "tidemark/version.hpp"

namespace tidemark {
namespace main_detail {
namespace {

using Commands =
    std::tuple<RunCommand, FitCommand, SearchCommand, SweepCommand, ExplainCommand, DiffCommand,
               CompareCommand, CheckCommand, ListCommand, DescribeCommand, GraphCommand,
               InitCommand, ImportCommand, PackCommand, PlanCommand, ReplayAllocatorCommand,
               ReplayEvictionCommand, RecipeCommand, ManualCommand, SchemaCommand,
               CompletionCommand, CalibrateCommand, ValidateCommand, PriceCommand>;

constexpr const char* kAbout =
    "Tidemark simulates training steps of a deep-learning model on a GPU, event by event: does it "
    "fit,\nwhen and why does memory peak, and what do checkpointing, offloading or another "
    "precision change?";

constexpr const char* kProgramExamples = R"(Examples:
  tidemark run gpt2 --gpu a100-sxm-80gb              a model on a GPU, no file needed
  tidemark run gpt2-xl --gpu v100-sxm-32gb -s training.micro_batch=4
  tidemark init && tidemark run scenario.yaml        a commented scenario to start from
  tidemark recipe llama-3-8b --gpu rtx-4090          the ways that fit, as settings to copy
  tidemark import ds_config.json --model gpt2-xl     the settings of another tool as a scenario
  tidemark explain scenario.yaml                     what makes up the peak, byte by byte
  tidemark diff scenario.yaml -b training.micro_batch=8   why one peak is larger, term by term
  tidemark list models                               also: gpus, policies, allocators, optimizers
  tidemark describe checkpoint_every                 parameters, defaults, sources

Exit codes: 0 a point fits; 1 none does; 2 bad input; 3 internal error.)";

// Returns for example "tidemark replay allocator".
std::string full_name(const CLI::App& command) {
  if (command.get_parent() == nullptr) return "tidemark";
  return full_name(*command.get_parent()) + ' ' + command.get_name();
}

// Explains a word on the command line that CLI11 does not know, with the nearest known word.
std::string explain_extra(const CLI::App& command, const std::string& word) {
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames())
      known.push_back("--" + name);
  }
  for (const CLI::App* child : command.get_subcommands([](const CLI::App*) { return true; })) {
    known.push_back(child->get_name());
  }
  const std::string name = word.substr(0, word.find('='));
  const std::string what = word.starts_with('-') ? "unknown option" : "unexpected argument";
  return fmt::format("{} {}{}\nsee: {} --help", what, tidemark::quoted_excerpt(word),
                     did_you_mean(name, known), full_name(command));
}

// Returns the command that was named, or the program itself.
const CLI::App& parsed_command(const CLI::App& program) {
  const std::vector<CLI::App*> commands = program.get_subcommands();
  return commands.empty() ? program : parsed_command(*commands.front());
}

// The first argument must be a command or an option, and a command that only groups others must be
// followed by one of those; CLI11 would only say that something was unexpected.
void check_command_word(const CLI::App& program, std::span<const std::string> arguments) {
  if (!arguments.empty() && arguments.front().starts_with('-')) return;
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
    if (arguments.empty() || names.back() != arguments.front()) continue;
    const bool groups = command->get_require_subcommand_min() > 0;
    if (groups) check_command_word(*command, arguments.subspan(1));
    return;
  }
  if (arguments.empty()) {
    throw UserError(fmt::format("{} needs one of its commands: {}", full_name(program),
                                fmt::join(names, ", ")));
  }
  const std::string& word = arguments.front();
  std::string hint = did_you_mean(word, names);
  if (hint.empty() && word.find('.') != std::string::npos && program.get_parent() == nullptr) {
    hint = fmt::format("; to simulate a scenario: tidemark run {}", excerpt(word));
  }
  throw UserError(fmt::format("unknown command {}{}\ncommands: {}", tidemark::quoted_excerpt(word),
                              hint, fmt::join(names, ", ")));
}

// An argument that names a file or a folder must name one: a script whose variable is empty would
// be told that all went well, and nothing would be written.
void refuse_empty_names(const CLI::App& command) {
  constexpr std::array<std::string_view, 3> kPathTypes{"DIR", "FILE", "OUT"};
  for (const CLI::Option* option : command.get_options()) {
    const std::string type = option->get_type_name();
    const bool positional = option->get_positional();
    const bool path = std::find(kPathTypes.begin(), kPathTypes.end(), type) != kPathTypes.end();
    if (option->count() == 0 || !(positional || path)) continue;
    const std::vector<std::string>& given = option->results();
    if (std::find(given.begin(), given.end(), "") == given.end()) continue;
    throw UserError(fmt::format("{}: the name is empty; give one{}",
                                option->get_name(positional, true),
                                positional ? "" : ", or leave the option out"));
  }
}

int execute(const Commands& commands, const Console& console) {
  int code = kExitFits;
  std::apply(
      [&](const auto&... command) {
        ((command.app->parsed() ? void(code = command.execute(console)) : void()), ...);
      },
      commands);
  return code;
}

int run_command_line(const std::vector<std::string>& arguments, const Console& console) {
  CLI::App program(kAbout, "tidemark");
  program.footer(kProgramExamples);
  program.set_version_flag("--version", fmt::format("tidemark {}", kVersion));
  program.require_subcommand(1);
  program.get_formatter()->column_width(32);
  Commands commands;
  std::apply([&](auto&... command) { (command.attach(program), ...); }, commands);
  if (arguments.empty()) {
    print_usage(program.help());
    return kExitBadInput;
  }
  check_command_word(program, arguments);
  try {
    // CLI11 takes them from the back.
    program.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    // Prints the help of the command, if one was named.
    print(wrap_meanings(program.help(), console.terminal ? console.width : 0));
    return kExitFits;
  } catch (const CLI::CallForVersion& version) {
    print(std::string(version.what()) + '\n');
    return kExitFits;
  } catch (const CLI::ExtrasError& error) {
    const std::vector<std::string> extras = program.remaining(true);
    if (extras.empty()) throw UserError(error.what());
    throw UserError(explain_extra(parsed_command(program), extras.front()));
  } catch (const CLI::ParseError& error) {
    const CLI::App& command = parsed_command(program);
    throw UserError(fmt::format("{}\nsee: {} --help", error.what(), full_name(command)));
  }
  refuse_empty_names(parsed_command(program));
  return execute(commands, console);
}

constexpr const char* kTooLittleMemory =
    "this machine, or a limit of the shell (ulimit -v), leaves too little memory; try a smaller "
    "model or input, fewer training.steps or fewer threads (-j)";

// Gives the standard streams that the caller has closed to nothing: the next files that are opened
// would take their numbers, and what is printed would go into them. Writing fails as before.
void occupy_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    static_cast<void>(open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
}

// Loads what unwinds an exception through the C library now: later there may be no memory for it,
// and the library ends the process.
void prepare_unwinding() {
  void* frame = nullptr;
  static_cast<void>(backtrace(&frame, 1));
}

// Memory can run out where nothing may be thrown, as in a destructor that allocates.
[[noreturn]] void terminate() {
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      std::fprintf(stderr, "tidemark: error: %s\n", kTooLittleMemory);
      std::_Exit(kExitInternal);
    } catch (...) {
    }
  }
  std::abort();
}

}  // namespace
}  // namespace main_detail
}  // namespace tidemark

int main(int argc, char** argv) {
  using namespace tidemark;  // NOLINT(google-build-using-namespace)
  main_detail::occupy_standard_streams();
  // A file that grows beyond the process's limit is an error of the write, as a full disk is.
  std::signal(SIGXFSZ, SIG_IGN);
  std::set_terminate(main_detail::terminate);
  main_detail::prepare_unwinding();
  keep_freed_memory();
  std::optional<Console> console;
  try {
    console = open_console(argc > 0 ? argv[0] : "tidemark");
    return main_detail::run_command_line(
        std::vector<std::string>(argv + std::min(argc, 1), argv + argc), *console);
  } catch (const UserError& error) {
    print_error(console.value_or(Console()), error.what());
    return kExitBadInput;
  } catch (const std::bad_alloc&) {
    print_error(console.value_or(Console()), main_detail::kTooLittleMemory);
  } catch (const std::exception& error) {
    print_error(console.value_or(Console()),
                fmt::format("internal error: {}\nThis is a fault of Tidemark, not of your input; "
                            "please report it with the scenario.",
                            error.what()));
  } catch (...) {
    print_error(console.value_or(Console()), "internal error of an unknown kind; please report it");
  }
  return kExitInternal;
}
