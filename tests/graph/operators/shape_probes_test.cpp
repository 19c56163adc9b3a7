// Probes of views, copies, indexing, pooling and losses.
#include <doctest/doctest.h>

#include "tests/graph/operators/operator_probes.hpp"

namespace tidemark::probe {
namespace {

TensorId narrowed(Arguments& a, TensorId x, std::int64_t axis, std::int64_t length) {
  return a.op("narrow", {x}, {{"axis", axis}, {"length", length}});
}

// x[:, ...]: the full slice of axis 0 is a node of its own.
TensorId sliced_rows(Arguments& a) {
  return narrowed(a, a.rows(), 0, 4);
}

TensorId indices(Arguments& a) {
  return a.op("arange", {}, {{"length", std::int64_t{8}}});
}

// A mask over the last two axes, compared inside the probe.
TensorId mask_source(Arguments& a) {
  return a.builder.buffer("source", {32, 64}, DType::kFloat32);
}

TensorId of_rows(Arguments& a, std::string_view family, Attributes attributes) {
  return a.op(family, {a.rows()}, std::move(attributes));
}

TensorId of_images(Arguments& a, std::string_view family, Attributes attributes) {
  return a.op(family, {a.images()}, std::move(attributes));
}

TensorId stacked(Arguments& a, std::string_view name) {
  return a.builder.view(a.rows(name), {1, 4, 32, 64});
}

TensorId embedding(Arguments& a, std::int64_t sparse) {
  const TensorId i = a.constant("i", {4, 32}, DType::kInt64);
  return a.op("embedding", {i, a.x({100, 64}, "weight")}, {{"sparse", sparse}});
}

TensorId cross_entropy(Arguments& a, Shape logits, Shape target) {
  const TensorId x = a.x(logits);
  const TensorId scores = a.op("log_softmax", {x}, {{"axis", std::int64_t{1}}});
  return a.op("nll_loss", {scores, a.constant("t", target, DType::kInt64)});
}

// (1 - smoothing) * nll + smoothing / classes * smooth, inside the operator.
TensorId label_smoothing(Arguments& a) {
  const Attributes inside{{"inside_operator", std::int64_t{1}}};
  const TensorId scores = a.op("log_softmax", {a.x({64, 100})}, {{"axis", std::int64_t{1}}});
  const TensorId target = a.constant("t", {64}, DType::kInt64);
  const TensorId nll = a.op("nll_loss", {scores, target});
  const TensorId smooth = a.op("smoothing_loss", {scores, target});
  return a.op("add", {a.op("scale", {nll}, inside), a.op("scale", {smooth}, inside)});
}

TensorId of_target(Arguments& a, std::string_view family) {
  const TensorId x = a.x({64, 100});
  return a.op(family, {x, a.constant("t", {64, 100})});
}

}  // namespace

std::vector<OperatorProbe> shape_probes() {
  const std::int64_t one = 1;
  const std::int64_t two = 2;
  return {
      {"transpose_contig", 0,
       [](Arguments& a) { return a.builder.contiguous(a.builder.transpose(a.rows(), 1, 2)); }},
      {"reshape_noncontig", 0,
       [](Arguments& a) {
         return a.builder.reshape(a.builder.transpose(a.rows(), 1, 2), {4, -1});
       }},
      {"view", 0,
       [](Arguments& a) {
         return a.builder.view(a.rows(), {4, -1});
       },
       DType::kFloat32, true},
      {"flatten", 0, [](Arguments& a) { return a.builder.flatten(a.images(), 1); }, DType::kFloat32,
       true},
      {"expand_contig", 0,  // x[:, :, None]
       [](Arguments& a) {
         const TensorId x = a.builder.view(narrowed(a, sliced_rows(a), 1, 32), {4, 32, 1, 64});
         return a.builder.contiguous(a.builder.expand(x, {4, 32, 3, 64}));
       }},
      {"split_cat", 0,
       [](Arguments& a) { return a.builder.cat(a.builder.split(a.rows(), 32, 2), 2); }},
      {"chunk_mul", 0,
       [](Arguments& a) {
         const std::vector<TensorId> halves = a.builder.split(a.rows(), 32, 2);
         return a.op("mul", {halves[0], halves[1]});
       }},
      {"glu", 0, [](Arguments& a) { return a.unary("glu"); }},
      {"slice", 0, [](Arguments& a) { return narrowed(a, sliced_rows(a), 1, 16); }},
      {"index_select", 64,
       [=](Arguments& a) {
         const TensorId x = a.rows();
         return a.op("index_select", {x, indices(a)}, {{"axis", one}});
       }},
      {"adv_index", 64,
       [=](Arguments& a) {
         const TensorId x = sliced_rows(a);
         return a.op("index", {x, indices(a)}, {{"axis", one}});
       }},
      {"roll", 0, [](Arguments& a) { return a.unary("roll"); }},
      {"pad", 0,
       [](Arguments& a) {
         return of_rows(a, "pad", {{"pads", axes({1, 1})}});
       }},
      {"flip", 0, [](Arguments& a) { return a.unary("flip"); }},
      {"clone", 0, [](Arguments& a) { return a.unary("clone"); }},
      {"to_bf16", 0, [](Arguments& a) { return a.builder.cast(a.rows(), DType::kBFloat16); }},
      {"masked_fill_scalar", 2048,
       [](Arguments& a) {
         const TensorId x = a.rows();
         return a.op("masked_fill", {x, mask_source(a)});
       }},
      {"where", 2048,
       [](Arguments& a) {
         const TensorId x = a.rows();
         return a.op("where", {a.op("gt", {mask_source(a)}), x});
       }},
      {"topk", 2048,
       [=](Arguments& a) {
         return of_rows(a, "topk", {{"k", two}});
       }},
      {"tril", 0, [](Arguments& a) { return a.unary("tril"); }},
      {"gather", 0,
       [=](Arguments& a) {
         const TensorId x = a.rows();
         return a.op("gather", {x, a.constant("i", {4, 8, 64}, DType::kInt64)}, {{"axis", one}});
       }},
      {"embedding", 0, [](Arguments& a) { return embedding(a, 0); }},
      {"embedding_sparse", 0, [](Arguments& a) { return embedding(a, 1); }, DType::kFloat32, true},
      {"max_pool2d", 131072,
       [=](Arguments& a) {
         return of_images(a, "max_pool2d", {{"kernel", two}});
       }},
      {"avg_pool2d", 0,
       [=](Arguments& a) {
         return of_images(a, "avg_pool2d", {{"kernel", two}});
       }},
      {"adaptive_avg_pool2d_1", 0,
       [](Arguments& a) { return a.builder.global_avg_pool2d(a.images()); }},
      {"adaptive_avg_pool2d_7", 0,
       [](Arguments& a) {
         return of_images(a, "adaptive_avg_pool2d", {{"output_size", std::int64_t{7}}});
       }},
      {"adaptive_max_pool2d", 25088,
       [](Arguments& a) {
         return of_images(a, "adaptive_max_pool2d", {{"output_size", std::int64_t{7}}});
       }},
      {"interp_bilinear", 0,
       [](Arguments& a) {
         return of_images(a, "interpolate", {{"mode", "bilinear"}, {"scale", 2.0}});
       }},
      {"interp_nearest", 0,
       [](Arguments& a) {
         return of_images(a, "interpolate", {{"scale", 2.0}});
       }},
      {"pixel_shuffle", 0,
       [=](Arguments& a) {
         return of_images(a, "pixel_shuffle", {{"factor", two}});
       }},
      {"cat_ch", 0,
       [](Arguments& a) {
         const TensorId first = a.images("nl_a");
         return a.builder.cat({first, a.images("nl_b")}, 1);
       }},
      {"stack", 0,
       [](Arguments& a) {
         const TensorId first = stacked(a, "nl_a");
         return a.builder.cat({first, stacked(a, "nl_b")}, 0);
       }},
  };
}

std::vector<OperatorProbe> loss_probes() {
  return {
      {"cross_entropy", 25604,
       [](Arguments& a) {
         return cross_entropy(a, {64, 100}, {64});
       }},
      {"cross_entropy_2d", 43012,
       [](Arguments& a) {
         return cross_entropy(a, {2, 21, 16, 16}, {2, 16, 16});
       }},
      {"cross_entropy_ls", 25604 + 64 + 64 + 256, label_smoothing},
      {"mse_loss", 0, [](Arguments& a) { return of_target(a, "mse_loss"); }},
      {"smooth_l1", 0, [](Arguments& a) { return of_target(a, "smooth_l1_loss"); }},
      {"bce_logits", 0, [](Arguments& a) { return of_target(a, "bce_with_logits_loss"); }},
      {"l1_loss", 25600,
       [](Arguments& a) { return a.op("mean", {a.op("abs", {of_target(a, "sub")})}); }},
      // (xlogy(target, target) - target * input).mean()
      {"kl_div", 0,
       [](Arguments& a) {
         const TensorId x = a.x({64, 100});
         const TensorId target = a.constant("t", {64, 100});
         return a.op("mean",
                     {a.op("sub", {a.op("mul", {target, target}), a.op("mul", {target, x})})});
       }},
  };
}

}  // namespace tidemark::probe
