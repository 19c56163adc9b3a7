// Time from a large ONNX file on disk to a lowered step.
#include "bench/figures.hpp"

#if TIDEMARK_READS_ONNX
#include "graph/autodiff/differentiate.hpp"
#include "graph/import/onnx/import_onnx.hpp"
#include "sim/program/lower.hpp"
#include "tests/support/onnx_models.hpp"

namespace tidemark::bench {

std::vector<Figure> onnx_figures() {
  const test::OnnxFile file(test::feed_forward_model(7000));
  const ModelOptions options{.dtype = DType::kFloat32};
  std::size_t instructions = 0;
  const double imported =
      median_seconds(9, [&] { static_cast<void>(import_onnx(file.path(), {}, options)); });
  const double lowered = median_seconds(9, [&] {
    const Graph graph = import_onnx(file.path(), {}, options);
    const TrainingGraph training =
        differentiate(graph, *find_framework("torch-2.4-cuda"), DifferentiateOptions{});
    const ProgramOrder order = program_order(training, 1);
    const Liveness live = analyze_liveness(training, order);
    instructions = lower(training, order, live, IdVector<GapId, Decision>(live.gaps.size())).size();
  });
  return {{.name = "onnx.import_7000_nodes", .value = imported * 1e3, .unit = "ms"},
          {.name = "onnx.import_and_lower_7000_nodes",
           .value = lowered * 1e3,
           .unit = "ms",
           .required = "< 1000"},
          {.name = "onnx.instructions_of_7000_nodes",
           .value = static_cast<double>(instructions),
           .unit = "instructions"}};
}

}  // namespace tidemark::bench
#else

std::vector<tidemark::bench::Figure> tidemark::bench::onnx_figures() {
  return {};
}
#endif
