// Operators of a training step that PyTorch's profiler recorded (Kineto), as measured operators:
// the time of one is that of its kernels on the GPU.
//
//   with torch.profiler.profile(record_shapes=True) as profile: step()
//   profile.export_chrome_trace("step.json")
//
// Understood are products (aten::mm, addmm, bmm, baddbmm), convolutions in both directions,
// softmax, layer norm, flash attention and elementwise operators over tensors of one shape. PyTorch
// 2 and later record the numbers that convolutions and attention hang on (Concrete Inputs);
// without, these are left out.
#pragma once

#include <string>

#include "hwprofiles/measured/measured_operators.hpp"

namespace tidemark {

// Whether the file is a trace rather than a table: by its name, *.json or *.json.gz; a pipe by how
// it begins.
[[nodiscard]] bool is_profiler_trace(const std::string& path);

// Reads a trace, compressed or not. Equal operators are one row with the median of their times; its
// line is the number of the first one among the trace's events. `other` counts the operators with
// kernels that are not understood, by name. Throws UserError: unreadable, no trace, no kernels, no
// shapes, or more than half of the rows are wrong.
[[nodiscard]] MeasuredTable read_profiler_trace(const std::string& path);

}  // namespace tidemark
