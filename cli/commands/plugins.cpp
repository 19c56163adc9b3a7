#include "cli/commands/plugins.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "graph/core/errors.hpp"
#include "graph/core/paths.hpp"
#include "graph/core/piped_files.hpp"

namespace tidemark {
namespace plugins_detail {
namespace {

// Loads the library in a process of its own first: an exception or a crash while it is initialised
// ends the process, and cannot be caught.
void try_loading(const std::string& path) {
  if (!path_exists(path)) return;  // reported where it is loaded
  const std::string file = absolute_path(path).string();
  keep_piped(file);
  const pid_t child = fork();
  if (child == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDERR_FILENO);  // hides the runtime's words on how the process ended
    dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    _exit(0);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw UserError({.file = path}, {},
                    "the plugin throws or crashes while it is loaded, in the initialisation of its "
                    "own globals");
  }
}

}  // namespace
}  // namespace plugins_detail

void load_plugins(const std::vector<std::string>& paths, PolicyRegistry& policies) {
  for (const std::string& path : paths) {
    plugins_detail::try_loading(path);
    policies.load_plugin(path);
  }
}

}  // namespace tidemark
