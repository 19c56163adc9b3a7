// Hidden files beside those that they become.
#include "graph/core/temporary_files.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include "graph/core/paths.hpp"

namespace tidemark::temporary_files_test {
namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "tidemark-files-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code error;
    fs::remove_all(path, error);
  }
  void write(const std::string& name) const { std::ofstream(path / name) << "text"; }
  fs::path path;
};

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a link that lies where a hidden file goes is replaced, and its target kept") {
    const Folder folder;
    folder.write("victim");
    const fs::path first = new_temporary(folder.path / "results.json");
    REQUIRE_FALSE(first.empty());
    CHECK(first.parent_path() == folder.path);
    fs::remove(first);
    fs::create_symlink(folder.path / "victim", first);
    REQUIRE(new_temporary(folder.path / "results.json") == first);
    CHECK_FALSE(fs::is_symlink(first));
    std::ofstream(first) << "other";
    CHECK(fs::file_size(folder.path / "victim") == 4);
    CHECK(new_temporary(folder.path / "missing" / "results.json").empty());
  }

  TEST_CASE("hidden files of processes that have ended are removed, and no others") {
    const Folder folder;
    const std::string mine = new_temporary(folder.path / "a").filename().string();
    // No process has so high a number.
    std::string ended = mine;
    const std::string process = fmt::format("-{}-", getpid());
    ended.replace(ended.rfind(process), process.size(), "-1999999999-");
    folder.write(ended);
    const std::string kept[] = {".tidemark-files", ".tidemark-elsewhere-1999999999-a",
                                ".results.json.1999999999", "results.json"};
    for (const std::string& name : kept)
      folder.write(name);
    remove_abandoned(folder.path);
    CHECK_FALSE(path_exists(folder.path / ended));
    CHECK(path_exists(folder.path / mine));
    for (const std::string& name : kept)
      CHECK(path_exists(folder.path / name));
  }
}

}  // namespace tidemark::temporary_files_test
