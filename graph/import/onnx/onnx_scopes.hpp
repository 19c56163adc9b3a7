// Scopes in the names of nodes: the node /enc/layers.0/attn/MatMul ran in enc, layers.0 and attn.
#pragma once

#include <cstddef>
#include <string_view>

namespace tidemark {

inline constexpr int kDeepestOnnxScope = 64;  // scopes inside of those belong to the one above

// Calls `visit` with the name of each scope that a node ran in, such as "/enc/layers.0/", and with
// its last part, "layers.0"; outermost first, until it returns false.
template <class Visit>
void visit_onnx_scopes(std::string_view node, Visit&& visit) {
  if (!node.starts_with('/')) return;
  int depth = 0;
  std::size_t begin = 1;
  for (std::size_t slash = node.find('/', begin); slash != std::string_view::npos;
       slash = node.find('/', begin)) {
    if (depth++ == kDeepestOnnxScope) return;
    if (!visit(node.substr(0, slash + 1), node.substr(begin, slash - begin))) return;
    begin = slash + 1;
  }
}

}  // namespace tidemark
