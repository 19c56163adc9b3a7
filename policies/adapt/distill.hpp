// Distillation: a teacher's evaluation beside the student, and the loss between them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/core/errors.hpp"
#include "graph/ir/graph.hpp"

namespace tidemark {

// Two modules whose results are compared; TextBrewer's IntermediateMatch.
struct Hint {
  std::string student;
  std::string teacher;
  Location location;
};

struct DistillOptions {
  bool logits = true;
  bool features = false;       // hidden states
  std::vector<Hint> hints;     // modules whose features are compared; empty: blocks by their depth
  bool student_first = false;  // the teacher runs on top of what the student has saved
  bool cached = false;         // the loader brings the teacher's largest logits; no teacher runs
  std::int64_t top = 64;       // logits per token that are cached
};

// Adds a teacher, an evaluation_graph(), and the distillation loss to a student. The loss is
//   T T / 2 KL(softmax(t / T) || log_softmax(s / T)) + cross-entropy / 2
// of logits, or the student's own plus the mean squared error of each of its blocks' results and
// that of the teacher's block at the same share of the depth (a linear regressor with a bias
// between them where the widths differ, as in TextBrewer and TinyBERT), or the sum of both. Throws
// UserError where the two models do not fit.
[[nodiscard]] Graph distill(const Graph& student, const Graph& teacher,
                            const DistillOptions& options);

}  // namespace tidemark
