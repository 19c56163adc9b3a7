// Circles and sizes of files and folders: a component (a header and a source of one name) and a
// folder can each be understood without going round in a circle. Read from the sources.
#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/support/paths.hpp"
#include "tests/support/sources.hpp"

namespace tidemark::components_test {

namespace {

using test::SourceTree;
using Faults = std::vector<std::string>;
// The names that each name includes.
using Graph = std::map<std::string, std::set<std::string>>;

// Files that together implement one thing may name each other; more than these are a tangle.
constexpr std::size_t kFilesOfOneThing = 3;
constexpr std::ptrdiff_t kMostLines = 400;
constexpr std::size_t kMostSources = 25;

std::string folder_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return std::string(path.substr(0, slash == std::string_view::npos ? 0 : slash));
}

// Returns "sim/engine/run" of sim/engine/run.hpp and sim/engine/run.cpp.
std::string component_of(std::string_view path) {
  return std::string(path.substr(0, path.rfind('.')));
}

// Calls `visit(file, included)` for each include of a file of the tree in another one.
template <class Visit>
void for_each_include(const SourceTree& tree, const Visit& visit) {
  for (const auto& [path, text] : tree) {
    for (const test::Include& include : test::includes_of(text)) {
      if (tree.contains(include.path)) visit(path, include.path);
    }
  }
}

Graph components_of(const SourceTree& tree) {
  Graph graph;
  for_each_include(tree, [&](const std::string& path, const std::string& included) {
    if (component_of(path) != component_of(included))
      graph[component_of(path)].insert(component_of(included));
  });
  return graph;
}

std::set<std::string> reachable(const Graph& graph, const std::string& from) {
  std::set<std::string> reached;
  std::vector<std::string> open{from};
  while (!open.empty()) {
    const auto node = graph.find(open.back());
    open.pop_back();
    if (node == graph.end()) continue;
    for (const std::string& next : node->second) {
      if (reached.insert(next).second) open.push_back(next);
    }
  }
  return reached;
}

// Returns the sets of names that all reach each other, two or more of them.
std::vector<std::vector<std::string>> circles(const Graph& graph) {
  std::map<std::string, std::set<std::string>> reaches;
  for (const auto& [name, includes] : graph)
    reaches.emplace(name, reachable(graph, name));
  std::vector<std::vector<std::string>> found;
  std::set<std::string> seen;
  for (const auto& [name, reached] : reaches) {
    if (!reached.contains(name) || seen.contains(name)) continue;
    std::vector<std::string> circle;
    for (const std::string& other : reached) {
      if (reaches.contains(other) && reaches.at(other).contains(name)) circle.push_back(other);
    }
    seen.insert(circle.begin(), circle.end());
    found.push_back(std::move(circle));
  }
  return found;
}

// Whether a circle is of a few files that together implement one thing: they lie in one folder.
bool parts_one_thing(const std::vector<std::string>& circle) {
  return circle.size() <= kFilesOfOneThing &&
         std::all_of(circle.begin(), circle.end(), [&](const std::string& component) {
           return folder_of(component) == folder_of(circle.front());
         });
}

std::string words_of(const std::vector<std::string>& circle) {
  return fmt::format("{}", fmt::join(circle, ", "));
}

Faults component_faults(const SourceTree& tree) {
  Faults faults;
  for (const std::vector<std::string>& circle : circles(components_of(tree))) {
    if (!parts_one_thing(circle)) faults.push_back(words_of(circle) + ": include each other");
  }
  return faults;
}

// Returns folders of one folder that include each other, directly or indirectly, and folders that
// include each other though one lies in the other.
Faults folder_faults(const SourceTree& tree) {
  std::map<std::string, Graph> siblings;  // by the folder that they lie in
  Graph folders;                          // the files directly in each
  for_each_include(tree, [&](const std::string& path, const std::string& included) {
    if (folder_of(path) != folder_of(included))
      folders[folder_of(path)].insert(folder_of(included));
    for (std::size_t slash = path.find('/'); slash != std::string::npos;
         slash = path.find('/', slash + 1)) {
      const std::string_view above = std::string_view(path).substr(0, slash + 1);
      if (!included.starts_with(above)) return;
      const std::size_t end = path.find('/', slash + 1);
      const std::size_t end_of_included = included.find('/', slash + 1);
      if (end == std::string::npos || end_of_included == std::string::npos) return;
      const std::string from = path.substr(0, end);
      const std::string to = included.substr(0, end_of_included);
      if (from == to) continue;
      siblings[std::string(above)][from].insert(to);
      return;
    }
  });
  Faults faults;
  for (const auto& [above, graph] : siblings) {
    for (const std::vector<std::string>& circle : circles(graph))
      faults.push_back(words_of(circle) + ": folders include each other");
  }
  for (const auto& [folder, included] : folders) {
    for (const std::string& other : included) {
      const auto back = folders.find(other);
      const bool inside = other.starts_with(folder + '/');
      if (inside && back != folders.end() && back->second.contains(folder))
        faults.push_back(fmt::format("{}, {}: folders include each other", folder, other));
    }
  }
  return faults;
}

// Returns files and folders that are too large to be read in one go.
Faults size_faults(const SourceTree& tree) {
  Faults faults;
  std::map<std::string, std::size_t> sources;
  for (const auto& [path, text] : tree) {
    const std::ptrdiff_t lines = std::count(text.begin(), text.end(), '\n');
    if (lines > kMostLines)
      faults.push_back(fmt::format("{}: {} lines, {} at most", path, lines, kMostLines));
    if (path.ends_with(".cpp")) ++sources[folder_of(path)];
  }
  for (const auto& [folder, count] : sources) {
    if (count > kMostSources)
      faults.push_back(fmt::format("{}: {} sources, {} at most", folder, count, kMostSources));
  }
  return faults;
}

// sim/step turns a description of a step into its result and knows nothing of the documents that a
// person writes: it could be driven by another program.
Faults step_faults(const SourceTree& tree) {
  Faults faults;
  for (const auto& [path, text] : tree) {
    if (!path.starts_with("sim/step/")) continue;
    std::string lower = text;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    for (const std::string_view word : {"yaml", "scenarios/", "core/decoder"}) {
      if (lower.find(word) != std::string::npos)
        faults.push_back(fmt::format("{}: mentions {}", path, word));
    }
    if (text.find("Decoder") != std::string::npos)
      faults.push_back(fmt::format("{}: mentions Decoder", path));
  }
  return faults;
}

// Returns the namespace of a source's helpers: graph/core/ids.cpp has ids_detail, or
// core_ids_detail where another folder of graph has an ids.cpp as well.
std::set<std::string> helper_namespaces(std::string_view path) {
  const std::string stem = component_of(path).substr(folder_of(path).size() + 1);
  std::string folder = folder_of(path);
  folder.erase(0, folder.rfind('/') + 1);
  return {stem + "_detail", folder + "_" + stem + "_detail"};
}

// Returns helpers whose names would depend on which sources are compiled together
// (CMAKE_UNITY_BUILD).
Faults namespace_faults(const SourceTree& tree) {
  Faults faults;
  std::map<std::string, std::string> owners;  // by top-level folder and namespace
  for (const auto& [path, text] : tree) {
    if (!path.ends_with(".cpp")) continue;
    const std::set<std::string> allowed = helper_namespaces(path);
    std::istringstream lines(text);
    std::string before;
    for (std::string line; std::getline(lines, line); before = line) {
      if (line != "namespace {") continue;
      std::string name;
      if (before.starts_with("namespace ") && before.ends_with(" {"))
        name = before.substr(10, before.size() - 12);
      if (!allowed.contains(name)) {
        faults.push_back(fmt::format("{}: its unnamed namespace is not in {}", path,
                                     fmt::join(allowed, " or ")));
        break;
      }
      const auto [owner, is_new] = owners.emplace(path.substr(0, path.find('/')) + name, path);
      if (!is_new && owner->second != path) {
        faults.push_back(fmt::format("{}, {}: both have {}", owner->second, path, name));
        break;
      }
    }
  }
  return faults;
}

// Returns types that two headers define under one name: the linker would keep one of their
// destructors for both, and no compiler says so while no source includes both headers.
Faults type_faults(const SourceTree& tree) {
  static const std::regex kDefinition(
      R"((?:class|struct|union|enum|enum class) (?:\[\[\w+\]\] )?(\w+)(?: final)?(?: [:{].*)?)");
  Faults faults;
  std::map<std::string, std::string> owners;  // by qualified name
  for (const auto& [path, text] : tree) {
    if (!path.ends_with(".hpp")) continue;
    std::vector<std::string> scopes;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("namespace ") && line.ends_with("{"))
        scopes.push_back(line == "namespace {" ? path : line.substr(10, line.size() - 12));
      if (line.starts_with("}  // namespace") && !scopes.empty()) scopes.pop_back();
      std::smatch match;
      if (!std::regex_match(line, match, kDefinition)) continue;
      const std::string name = fmt::format("{}::{}", fmt::join(scopes, "::"), match[1].str());
      const auto [owner, is_new] = owners.emplace(name, path);
      if (!is_new)
        faults.push_back(fmt::format("{}, {}: both define {}", owner->second, path, name));
    }
  }
  return faults;
}

const SourceTree& sources() {
  static const SourceTree kTree = test::read_sources(test::source_path());
  return kTree;
}

void expect_none(const Faults& faults) {
  for (const std::string& fault : faults)
    FAIL_CHECK(fault);
}

std::string include(const std::string& path) {
  return "#include \"" + path + "\"\n";
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("no components include each other but a few files that part one thing") {
    expect_none(component_faults(sources()));
    for (const std::vector<std::string>& circle : circles(components_of(sources()))) {
      if (parts_one_thing(circle)) MESSAGE("part one thing: " << words_of(circle));
    }
  }

  TEST_CASE("no folders include each other") {
    expect_none(folder_faults(sources()));
  }

  TEST_CASE("files and folders are short") {
    expect_none(size_faults(sources()));
  }

  TEST_CASE("what simulates a step knows nothing of scenario files") {
    expect_none(step_faults(sources()));
  }

  TEST_CASE("helpers of a source are in a namespace of its own") {
    expect_none(namespace_faults(sources()));
  }

  TEST_CASE("no two headers define a type of one name") {
    expect_none(type_faults(sources()));
  }

  TEST_CASE("types that two headers define under one name are found") {
    const std::string scope = "namespace tidemark {\n";
    SourceTree tree{
        {"sim/a.hpp", scope + "struct Fit {\n};\n"},
        {"sim/b.hpp", "namespace tidemark::sharding {\nclass Fit : public Base {\n};\n"},
        {"sim/c.hpp", scope + "struct Fit;\n  struct Fit {\n"},
        {"sim/e.hpp", scope + "namespace {\nstruct Fit {\n"},
        {"sim/f.hpp", scope + "namespace {\nstruct Fit {\n"}};
    CHECK(type_faults(tree).empty());
    tree["sim/d.hpp"] = scope + "enum class Fit : std::uint8_t { kFirst, kBest };\n";
    CHECK(type_faults(tree) == Faults{"sim/a.hpp, sim/d.hpp: both define tidemark::Fit"});
    tree["sim/d.hpp"] =
        scope + "namespace x {\n}  // namespace x\nclass [[nodiscard]] Fit final {\n";
    CHECK(type_faults(tree) == Faults{"sim/a.hpp, sim/d.hpp: both define tidemark::Fit"});
  }

  TEST_CASE("a circle of components is found where it is closed by a source") {
    SourceTree tree{{"sim/a.hpp", ""},
                    {"sim/a.cpp", include("sim/b.hpp")},
                    {"sim/b.hpp", include("sim/c.hpp")},
                    {"sim/c.hpp", ""},
                    {"sim/c.cpp", include("sim/c.hpp") + include("sim/d.hpp")},
                    {"sim/d.hpp", ""},
                    {"sim/e.cpp", include("sim/a.hpp")}};
    CHECK(circles(components_of(tree)).empty());
    tree["sim/d.hpp"] = include("sim/a.hpp");
    CHECK(component_faults(tree) == Faults{"sim/a, sim/b, sim/c, sim/d: include each other"});
    tree["sim/d.hpp"] = "// " + include("sim/a.hpp");
    CHECK(component_faults(tree).empty());
  }

  TEST_CASE("up to three files of one folder may name each other") {
    SourceTree tree{{"sim/a.hpp", ""},
                    {"sim/a.cpp", include("sim/b.hpp")},
                    {"sim/b.hpp", include("sim/c.hpp")},
                    {"sim/c.hpp", include("sim/a.hpp")}};
    CHECK(component_faults(tree).empty());
    CHECK(circles(components_of(tree)).size() == 1);
    // Two files of two folders are not one thing.
    tree = {{"sim/x/a.hpp", include("sim/y/b.hpp")},
            {"sim/y/b.hpp", ""},
            {"sim/y/b.cpp", include("sim/x/a.hpp")}};
    CHECK(component_faults(tree) == Faults{"sim/x/a, sim/y/b: include each other"});
  }

  TEST_CASE("a folder and the folder inside of it do not include each other") {
    SourceTree tree{
        {"sim/x/a.cpp", include("sim/x/in/b.hpp")}, {"sim/x/in/b.hpp", ""}, {"sim/x/c.hpp", ""}};
    CHECK(folder_faults(tree).empty());
    tree["sim/x/in/b.hpp"] = include("sim/x/c.hpp");
    CHECK(folder_faults(tree) == Faults{"sim/x, sim/x/in: folders include each other"});
  }

  TEST_CASE("folders that include each other are found at every level") {
    SourceTree tree{{"sim/x/a.hpp", include("sim/y/b.hpp")},
                    {"sim/x/c.hpp", ""},
                    {"sim/y/b.hpp", ""},
                    {"sim/y/d.hpp", ""},
                    {"sim/y/in/e.hpp", ""}};
    CHECK(folder_faults(tree).empty());
    tree["sim/y/d.hpp"] = include("sim/x/c.hpp");  // no circle of components
    CHECK(component_faults(tree).empty());
    CHECK(folder_faults(tree) == Faults{"sim/x, sim/y: folders include each other"});
    tree["sim/y/d.hpp"] = "";
    tree["sim/y/in/e.hpp"] = include("sim/x/c.hpp");
    CHECK(folder_faults(tree) == Faults{"sim/x, sim/y: folders include each other"});
    tree = {{"sim/x/p/a.hpp", include("sim/x/q/b.hpp")}, {"sim/x/q/b.hpp", ""},
            {"sim/x/q/c.hpp", include("sim/x/r/d.hpp")}, {"sim/x/r/d.hpp", ""},
            {"sim/x/r/e.hpp", include("sim/x/p/f.hpp")}, {"sim/x/p/f.hpp", ""}};
    CHECK(folder_faults(tree) == Faults{"sim/x/p, sim/x/q, sim/x/r: folders include each other"});
    // A file above its folders may use them or be used.
    tree = {{"sim/x/a.hpp", include("sim/x/p/b.hpp")}, {"sim/x/p/b.hpp", ""}};
    CHECK(folder_faults(tree).empty());
    tree = {{"sim/x/p/b.hpp", include("sim/x/c.hpp")}, {"sim/x/c.hpp", ""}};
    CHECK(folder_faults(tree).empty());
  }

  TEST_CASE("files of more than 400 lines and folders of more than 25 sources are found") {
    SourceTree tree{{"sim/a.cpp", std::string(400, '\n')}};
    for (int i = 0; i < 24; ++i) {
      tree[fmt::format("sim/{}.cpp", i)] = "";
      tree[fmt::format("sim/{}.hpp", i)] = "";
      tree[fmt::format("sim/in/{}.cpp", i)] = "";
    }
    CHECK(size_faults(tree).empty());
    tree["sim/a.cpp"] += '\n';
    tree["sim/b.cpp"] = "";
    CHECK(size_faults(tree) ==
          Faults{"sim/a.cpp: 401 lines, 400 at most", "sim: 26 sources, 25 at most"});
  }

  TEST_CASE("helpers outside a namespace of their source are found") {
    const std::string unnamed = "namespace {\nint a;\n}\n";
    SourceTree tree{{"sim/x/a.cpp", "namespace a_detail {\n" + unnamed},
                    {"sim/y/a.cpp", "namespace y_a_detail {\n" + unnamed},
                    {"plots/x/a.cpp", "namespace a_detail {\n" + unnamed}};
    CHECK(namespace_faults(tree).empty());
    tree["sim/y/a.cpp"] = "namespace a_detail {\n" + unnamed;
    CHECK(namespace_faults(tree) == Faults{"sim/x/a.cpp, sim/y/a.cpp: both have a_detail"});
    tree["sim/y/a.cpp"] = unnamed;
    CHECK(namespace_faults(tree) ==
          Faults{"sim/y/a.cpp: its unnamed namespace is not in a_detail or y_a_detail"});
  }

  TEST_CASE("a step that knows of documents is found") {
    CHECK(step_faults({{"sim/step/a.cpp", "int a;\n"},
                       {"sim/engine/b.cpp", include("graph/core/decoder.hpp")}})
              .empty());
    CHECK(step_faults({{"sim/step/a.cpp", "// As in the YAML file.\n"}}) ==
          Faults{"sim/step/a.cpp: mentions yaml"});
    CHECK(step_faults({{"sim/step/a.hpp", "class Decoder;\n"}}) ==
          Faults{"sim/step/a.hpp: mentions Decoder"});
    CHECK(step_faults({{"sim/step/a.hpp", include("scenarios/read/scenario.hpp") +
                                              include("graph/core/decoder.hpp")}})
              .size() == 2);
  }
}

}  // namespace tidemark::components_test
