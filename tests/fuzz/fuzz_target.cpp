#include "tests/fuzz/fuzz_target.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "graph/core/errors.hpp"
#include "scenarios/read/environment.hpp"

namespace tidemark::fuzz {
namespace fuzz_target_detail {
namespace {

namespace fs = std::filesystem;

// A folder of this process that is removed at exit.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (fs::temp_directory_path() / "tidemark-fuzz-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Whether a file's name is `pattern`, in which one '*' stands for any text.
bool matches(const std::string& name, const std::string& pattern) {
  const std::size_t star = pattern.find('*');
  if (star == std::string::npos) return name == pattern;
  return name.size() + 1 >= pattern.size() && name.starts_with(pattern.substr(0, star)) &&
         name.ends_with(pattern.substr(star + 1));
}

void add_files(const fs::path& folder, const std::string& pattern,
               std::vector<std::string>& found) {
  if (!fs::is_directory(folder)) return;
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file() && matches(entry.path().filename().string(), pattern))
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files)
    found.push_back(content_of(file));
}

}  // namespace
}  // namespace fuzz_target_detail

std::span<const FuzzTarget> fuzz_targets() {
  static const std::vector<FuzzTarget> all = [] {
    std::vector<FuzzTarget> targets;
    for (const auto& part :
         {document_targets(), table_targets(), recording_targets(), step_targets()}) {
      targets.insert(targets.end(), part.begin(), part.end());
    }
    return targets;
  }();
  return all;
}

const FuzzTarget& fuzz_target(std::string_view name) {
  std::string names;
  for (const FuzzTarget& target : fuzz_targets()) {
    if (target.name == name) return target;
    names += ' ' + std::string(target.name);
  }
  throw std::invalid_argument("no target '" + std::string(name) + "'; there are:" + names);
}

bool run_target(const FuzzTarget& target, const std::string& bytes) {
  try {
    target.read(bytes);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

std::vector<std::string> seeds_of(const FuzzTarget& target, const std::string& root) {
  namespace fs = std::filesystem;
  std::vector<std::string> found;
  for (const std::string_view seeds : target.seeds) {
    const fs::path path = fs::path(root) / seeds;
    fuzz_target_detail::add_files(path.parent_path(), path.filename().string(), found);
  }
  found.insert(found.end(), target.texts.begin(), target.texts.end());
  fuzz_target_detail::add_files(fs::path(root) / "tests/fuzz/regressions" / target.name, "*",
                                found);
  return found;
}

const Environment& environment() {
  static const Environment shipped = default_environment();
  return shipped;
}

std::string file_with(const std::string& bytes, const std::string& name) {
  static const fuzz_target_detail::ScratchFolder folder;
  const std::filesystem::path path = folder.path() / name;
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  return path.string();
}

}  // namespace tidemark::fuzz
