#include "sim/step/point_runner.hpp"

#include <utility>

namespace tidemark {

PointResult PointRunner::run(const SimulateOptions& options, const CompileOptions& compilation,
                             const DetailSink& sink) {
  ++runs_;
  Compiled compiled = compile(spec_, *model_, compilation);
  if (!sink) return simulate(spec_, *model_, std::move(compiled), options);
  PointDetail detail;
  PointResult result = simulate(spec_, *model_, std::move(compiled), options, &detail);
  if (detail.model == nullptr) detail.model = model_;  // else that of a pipeline's stage
  sink(result, std::move(detail));
  return result;
}

}  // namespace tidemark
