// Arguments of module calls, which are held until the call returns.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "graph/import/onnx/onnx_calls.hpp"
#include "tests/graph/import/onnx/onnx_probe.hpp"

namespace tidemark::test::calls_test {
namespace {

using Held =
    std::vector<std::pair<std::string, std::string>>;  // values and the nodes they wait for

// A file whose nodes are given by name, with the names of the nodes that they read.
class File {
 public:
  void add(const std::string& name, const std::vector<std::string>& reads) {
    OnnxNode node{.op = "Relu", .name = name};
    for (const std::string& read : reads) {
      const auto known = value_of_.find(read);
      node.inputs.push_back(known != value_of_.end() ? known->second : value(read));
    }
    node.outputs.push_back(value(name));
    model_.nodes.push_back(std::move(node));
  }
  [[nodiscard]] Held held() const {
    Held all;
    for (const OnnxArgument& a : arguments_of_calls(model_, OnnxUses(model_)))
      all.emplace_back(model_.names[a.value], model_.nodes[a.returns].name);
    return all;
  }

 private:
  OnnxValueId value(const std::string& name) {
    return value_of_[name] = model_.names.push_back(name);
  }

  OnnxModel model_;
  std::map<std::string, OnnxValueId> value_of_;
};

TEST_SUITE("unit") {
  TEST_CASE("a module holds what it is called with until its last operator") {
    File file;
    file.add("/norm/Mul", {"x"});
    file.add("/mlp/up/MatMul", {"/norm/Mul"});
    file.add("/mlp/Relu", {"/mlp/up/MatMul"});
    file.add("/mlp/down/MatMul", {"/mlp/Relu"});
    file.add("/Add", {"x", "/mlp/down/MatMul"});
    // Inputs of the model, here x, live for the step.
    CHECK(file.held() == Held{{"/norm/Mul", "/mlp/down/MatMul"}});
  }

  TEST_CASE("of nested calls the outermost holds, and calls of one operator hold nothing more") {
    File file;
    file.add("/Mul", {"x"});
    file.add("/block/attn/query/MatMul", {"/Mul"});
    file.add("/block/attn/Softmax", {"/block/attn/query/MatMul"});
    file.add("/block/attn/out/MatMul", {"/block/attn/Softmax"});
    file.add("/block/Relu", {"/block/attn/out/MatMul"});
    CHECK(file.held() == Held{{"/Mul", "/block/Relu"}});
  }

  TEST_CASE("a list of modules is no call, and repeated calls are apart") {
    File file;
    file.add("/Mul", {"x"});
    file.add("/layers.0/a/Relu", {"/Mul"});
    file.add("/layers.0/b/Relu", {"/layers.0/a/Relu"});
    file.add("/layers.1/a/Relu", {"/layers.0/b/Relu"});
    file.add("/layers.1/b/Relu", {"/layers.1/a/Relu"});
    file.add("/shared/a/Relu", {"/layers.1/b/Relu"});
    file.add("/shared/b/Relu", {"/shared/a/Relu"});
    file.add("/shared_1/a/Relu", {"/shared/b/Relu"});
    file.add("/shared_1/b/Relu", {"/shared_1/a/Relu"});
    CHECK(file.held() == Held{{"/Mul", "/layers.0/b/Relu"},
                              {"/layers.0/b/Relu", "/layers.1/b/Relu"},
                              {"/layers.1/b/Relu", "/shared/b/Relu"},
                              {"/shared/b/Relu", "/shared_1/b/Relu"}});
  }

  TEST_CASE("the variables of an imported graph are the arguments of its calls") {
    const auto variables = [](const std::string& first, const std::string& second) {
      OnnxProbe probe({64, 1024});
      const std::string y = probe.w.node("Neg", {probe.x}, {}, "/Neg");
      const std::string a = probe.w.node("Neg", {y}, {}, first);
      probe.w.output(probe.w.node("Neg", {a}, {}, second));
      return imported(probe.w).locals;
    };
    CHECK(variables("/Neg_1", "/Neg_2").empty());
    const std::vector<LocalVariable> held = variables("/call/Neg", "/call/Neg_1");
    REQUIRE(held.size() == 1);
    CHECK(held[0].until == NodeId(3U));  // Add, Neg, and the two of the call
  }
}

}  // namespace
}  // namespace tidemark::test::calls_test
