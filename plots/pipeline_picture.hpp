// The classic picture of a pipeline: a row for each stage, a box for each part of its work, and
// what is blank is idle.
//
//   stage 0  [0][1][2][3]         [0  ][4][1  ] ...
//   stage 1     [0][1][2]    [0  ][3][1  ]      ...
#pragma once

#include <ostream>
#include <span>
#include <string>

#include "sim/step/point_result.hpp"

namespace tidemark {

// Writes the last step of all stages as SVG, from the simulated run. Boxes name their micro-batch;
// forwards are light, backwards darker, weight gradients darkest. Below them each group that the
// stage communicates in has a narrow lane, of which messages are those that the stage sends.
void write_pipeline_picture(std::ostream& out, const std::string& title,
                            const std::string& subtitle, std::span<const StageResult> stages);

// Writes stage, part, micro_batch, chunk, begin and end of each box, in seconds.
void write_pipeline_csv(std::ostream& out, std::span<const StageResult> stages);

}  // namespace tidemark
