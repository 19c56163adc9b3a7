// Operators of a training step that Nsight Systems recorded, as measured operators: the ranges that
// PyTorch marks, projected to the GPU.
//
//   with torch.autograd.profiler.emit_nvtx(record_shapes=True): step()
//   nsys profile -t cuda,nvtx -o step python train.py
//   nsys stats --report nvtx_gpu_proj_trace --format csv --output . step.nsys-rep
//
// The report has the columns Name, Projected Duration (ns) and NumChild; a name is ":aten::addmm,
// seq = 12, op_id = 7, sizes = [[6], [8, 4], [4, 6], [], []]". Ranges say neither types nor the
// numbers that convolutions and attention hang on, so that these are left out, and the type is the
// caller's.
#pragma once

#include <optional>

#include "graph/ir/dtype.hpp"
#include "hwprofiles/measured/csv_table.hpp"
#include "hwprofiles/measured/measured_operators.hpp"

namespace tidemark {

// Whether the columns are those of the report, or of another one of Nsight Systems.
[[nodiscard]] bool is_nsight_table(const CsvTable& table);

// Reads the report as operators of a type, fp32, tf32, fp16 or bf16. Throws UserError: another
// report, no type, no ranges of operators with shapes.
[[nodiscard]] MeasuredTable read_nsight_ranges(const CsvTable& table, std::optional<DType> dtype);

}  // namespace tidemark
