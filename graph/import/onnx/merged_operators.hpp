// Operators that several modules compute of equal inputs, each for itself, and that the exporter
// writes once: the SiLU of a time embedding before the linear of every block of a diffusion model,
// the comparison of a mask in every attention. The first module has them; the others read its
// results, though a module hands out nothing but what it returns:
//
//   /blocks.0/time/time.0/Mul -> /blocks.0/time/time.1/Gemm, /blocks.1/time/time.1/Gemm
#pragma once

#include "graph/import/onnx/onnx_model.hpp"

namespace tidemark {

// Gives every such module operators of its own again. A result counts as merged where its own
// module and another one read it at the same place, and where it hangs on no parameter, no random
// number and nothing else that is made inside of its module.
void split_merged_operators(OnnxModel& model);

}  // namespace tidemark
