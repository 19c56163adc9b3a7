#include "graph/import/onnx/onnx_calls.hpp"

#include <map>
#include <string_view>

#include "graph/import/onnx/onnx_scopes.hpp"

namespace tidemark {
namespace onnx_calls_detail {
namespace {

struct Call {
  std::map<OnnxValueId, OnnxNodeId> arguments;  // with the last node that reads each
  OnnxNodeId returns;
};

// Returns the outermost call that a reader runs in and the producer does not; empty if none.
std::string_view call_between(std::string_view producer, std::string_view reader) {
  std::string_view found;
  visit_onnx_scopes(reader, [&](std::string_view call, std::string_view /*part*/) {
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
    visit_onnx_scopes(model.nodes[id].name, [&](std::string_view name, std::string_view /*part*/) {
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
