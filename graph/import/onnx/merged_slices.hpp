// x[:, 0::2, 0::2] is a slice of a slice in the file, and the exporter writes slices that are equal
// once. Of the four parts that Swin's patch merging and YOLOv5's Focus join, two share each first
// slice:
//
//   x -> rows 0::2 -> columns 0::2, columns 1::2
//     -> rows 1::2 -> columns 0::2, columns 1::2
#pragma once

#include "graph/import/onnx/onnx_model.hpp"

namespace tidemark {

// Gives every index of two axes a first slice of its own again. Slices count as parts of indices
// where a tensor has two or more over one axis, and each of them is read by nothing but slices over
// one other, later axis. A single first slice may be a variable of the module and stays shared.
void split_merged_slices(OnnxModel& model);

}  // namespace tidemark
