// Explains why the peak of one point is larger than that of another, term by term.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/core/units.hpp"
#include "scenarios/results/peak_terms.hpp"
#include "scenarios/studies/detailed_point.hpp"

namespace tidemark {

// A term of both points, in Bytes or as a Duration.
template <class Quantity>
struct TermPair {
  std::string name;
  Quantity a{};
  Quantity b{};
  [[nodiscard]] Quantity difference() const { return b - a; }
};

// Tensors that are alike in role, layer pattern, name and the operator that made them.
struct TensorPair {
  LargestTensor tensor;  // named by the layers' pattern; bytes are those of the groups below
  std::int64_t count_a = 0;
  std::int64_t count_b = 0;
  Bytes a;
  Bytes b;
  [[nodiscard]] Bytes difference() const { return b - a; }
};

// The differences of `roles`, of `layers` and of `tensors` each add up to the difference of the
// live bytes at the peaks; those of `device` to that of the device memory used; those of
// `phase_times` to that of the step's time.
struct PeakDifference {
  TermPair<Bytes> live;  // live bytes at the peak
  TermPair<Bytes> device_used;
  TermPair<Duration> step;
  std::vector<TermPair<Bytes>> roles;   // roles in the order in which they are stacked
  std::vector<TermPair<Bytes>> layers;  // patterns of layers; largest difference first
  std::vector<TensorPair> tensors;      // largest difference first
  // Live bytes; each is a peak of its own, so they do not add up.
  std::vector<TermPair<Bytes>> phase_peaks;
  std::vector<TermPair<Bytes>> device;
  std::vector<TermPair<Duration>> phase_times;
  // Parts of the step: recomputation, copies, collectives, host.
  std::vector<TermPair<Duration>> waits;
  std::vector<TermPair<Duration>> streams;  // busy time of the step
};

// Compares points that were simulated with all of their largest tensors
// (SimulateOptions::largest_tensors).
[[nodiscard]] PeakDifference peak_difference(const DetailedPoint& a, const DetailedPoint& b);

}  // namespace tidemark
