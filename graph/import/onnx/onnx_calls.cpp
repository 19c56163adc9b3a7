#include "graph/import/onnx/onnx_calls.hpp"

#include <map>
#include <string_view>

namespace tidemark {
namespace onnx_calls_detail {
namespace {

constexpr int kDeepestCall = 64;  // calls inside of those belong to the one above

struct Call {
  std::map<OnnxValueId, OnnxNodeId> arguments;  // with the last node that reads each
  OnnxNodeId returns;
};

// Calls `visit` with the name of each call that a node runs in, outermost first, until it returns
// false.
template <class Visit>
void visit_calls(std::string_view node, Visit visit) {
  if (!node.starts_with('/')) return;
  int depth = 0;
  for (std::size_t slash = node.find('/', 1); slash != std::string_view::npos;
       slash = node.find('/', slash + 1)) {
    if (depth++ == kDeepestCall || !visit(node.substr(0, slash + 1))) return;
  }
}

// Returns the outermost call that a reader runs in and the producer does not; empty if none.
std::string_view call_between(std::string_view producer, std::string_view reader) {
  std::string_view found;
  visit_calls(reader, [&](std::string_view call) {
    if (!producer.starts_with(call)) found = call;
    return found.empty();
  });
  return found;
}

}  // namespace
}  // namespace onnx_calls_detail

std::vector<OnnxArgument> arguments_of_calls(const OnnxModel& model, const OnnxUses& uses) {
  using onnx_calls_detail::call_between;
  std::map<std::string_view, onnx_calls_detail::Call> calls;
  for (OnnxNodeId id : ids_of(model.nodes)) {
    for (const OnnxValueId value : model.nodes[id].inputs) {
      const OnnxNodeId producer = value.valid() ? uses.producer[value] : OnnxNodeId();
      if (!producer.valid()) continue;
      const std::string_view call = call_between(model.nodes[producer].name, model.nodes[id].name);
      if (!call.empty()) calls[call].arguments[value] = id;
    }
  }
  for (OnnxNodeId id : ids_of(model.nodes)) {
    onnx_calls_detail::visit_calls(model.nodes[id].name, [&](std::string_view name) {
      const auto call = calls.find(name);
      if (call != calls.end()) call->second.returns = id;
      return true;
    });
  }
  std::vector<OnnxArgument> held;
  for (const auto& [name, call] : calls) {
    for (const auto& [value, last_reader] : call.arguments) {
      if (last_reader != call.returns) held.push_back({value, call.returns});
    }
  }
  return held;
}

}  // namespace tidemark
