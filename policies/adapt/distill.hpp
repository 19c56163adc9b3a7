// Distillation: a teacher's evaluation beside the student, and the loss between them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "graph/ir/graph.hpp"

namespace tidemark {

struct DistillOptions {
  bool features = false;       // hidden states of mapped blocks rather than logits
  bool student_first = false;  // the teacher runs on top of what the student has saved
  bool cached = false;         // the loader brings the teacher's largest logits; no teacher runs
  std::int64_t top = 64;       // logits per token that are cached
};

// Adds a teacher, an evaluation_graph(), and the distillation loss to a student. The loss is
//   T T / 2 KL(softmax(t / T) || log_softmax(s / T)) + cross-entropy / 2
// of logits, or the student's own plus the mean squared error of each of its blocks' results and
// that of the teacher's block at the same share of the depth (a linear regressor between them where
// the widths differ). Throws UserError where the two models do not fit.
[[nodiscard]] Graph distill(const Graph& student, const Graph& teacher,
                            const DistillOptions& options);

}  // namespace tidemark
