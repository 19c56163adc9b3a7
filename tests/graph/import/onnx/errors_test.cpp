// Messages that a user reads when a file cannot be simulated.
#if TIDEMARK_READS_ONNX
#include "graph/core/errors.hpp"

#include <doctest/doctest.h>

#include "graph/core/document.hpp"
#include "tests/graph/import/onnx/onnx_probe.hpp"

namespace tidemark::test::onnx_errors_test {
namespace {

std::string problem_of_bytes(const std::string& bytes) {
  const OnnxFile file(bytes);
  return probe::problem_of([&] { static_cast<void>(read_onnx(file.path())); });
}

OnnxWriter small_model() {
  OnnxWriter w;
  const std::string x = w.input("x", {4, 8});
  w.output(w.node("Gemm", {x, w.parameter("fc.weight", {3, 8}), w.parameter("fc.bias", {3})},
                  {{"transB", std::int64_t{1}}}, "/fc/Gemm"));
  return w;
}

bool contains(const std::string& text, std::string_view part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a file that is not ONNX, or only the beginning of one, is an error") {
    CHECK(contains(problem_of_bytes(""), "the file is empty"));
    CHECK(contains(problem_of_bytes("version: 1\nname: not a model\n"), "not an ONNX model"));
    CHECK(contains(problem_of_bytes("{\"model_type\": \"gpt2\"}"), "ONNX model"));
    CHECK(contains(probe::problem_of([] { static_cast<void>(read_onnx("/nowhere/a.onnx")); }),
                   "/nowhere/a.onnx: no such file"));
    CHECK(contains(probe::problem_of([] { static_cast<void>(read_onnx("/")); }),
                   "not a regular file"));
  }

  TEST_CASE("every truncation is an error, never a smaller model or a crash") {
    const std::string bytes = small_model().bytes();
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      CAPTURE(length);
      CHECK_FALSE(problem_of_bytes(bytes.substr(0, length)).empty());
    }
    CHECK(problem_of_bytes(bytes).empty());
    CHECK(contains(problem_of_bytes(bytes.substr(0, bytes.size() - 20)),
                   "not a complete ONNX model: its graph has "));
  }

  TEST_CASE("an input says its shape and type, and one that no device can hold names the file") {
    const auto with_type = [](auto change) {
      onnx_file::ModelProto model;
      REQUIRE(model.ParseFromString(small_model().bytes()));
      change(*model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type());
      const OnnxFile file(model.SerializeAsString());
      const std::string problem =
          probe::problem_of([&] { static_cast<void>(import_onnx(file.path(), {}, {})); });
      CHECK(problem.starts_with(file.path() + ": "));
      CHECK(problem.find(file.path(), 1) == std::string::npos);  // once
      return problem;
    };
    CHECK(contains(with_type([](auto& tensor) { tensor.clear_shape(); }),
                   ": input 'x' has no shape"));
    CHECK(contains(with_type([](auto& tensor) { tensor.set_elem_type(8); }),
                   ": input 'x' has the element type string"));
    CHECK(contains(with_type([](auto& tensor) {
                     tensor.mutable_shape()->mutable_dim(0)->set_dim_value(std::int64_t{1} << 61);
                   }),
                   "has more elements than any device can hold"));
  }

  TEST_CASE("a batch that is stated but not that of the file asks for batch_axis") {
    OnnxOptions options;
    options.batch_is_stated = true;
    CHECK(contains(
        problem(small_model(), options),
        "was exported with a batch of 4 (axis 0 of input 'x'), not 1; write batch_axis: 0"));
    CHECK(problem(small_model(), options, {.micro_batch = 4}).empty());
    // The other axis has this extent, but the batch is 4.
    CHECK(contains(problem(small_model(), options, {.micro_batch = 8}), "a batch of 4"));
    options.batch_axis = 0;
    CHECK(problem(small_model(), options).empty());
  }

  TEST_CASE("a batch that is stated twice must be the same") {
    OnnxWriter w;
    const std::string x = w.input("x", {-1, 8});
    w.model()
        .mutable_graph()
        ->mutable_input(0)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(0)
        ->set_dim_param("N");
    w.output(w.linear(x, "fc", 8, 4));
    OnnxOptions options{.batch_is_stated = true, .axes = {{"N", 8}}};
    CHECK(problem(w, options, {.micro_batch = 8}).empty());
    for (const std::optional<std::int64_t> axis :
         {std::optional<std::int64_t>(), std::optional<std::int64_t>(0)}) {
      for (const std::string name : {"N", "x.0"}) {
        options.batch_axis = axis;
        options.axes = {{name, 8}};
        const std::string text = problem(w, options, {.micro_batch = 4});
        CHECK(contains(text, "model.axes." + name));
        CHECK(contains(text, "8 here but 4 by training.micro_batch; write batch_axis: 0"));
      }
    }
    options = {.axes = {{"N", 8}}};
    CHECK(imported(w, options).samples == 8);
  }

  TEST_CASE("a file cut after its beginning is incomplete, not of another kind") {
    OnnxWriter w = small_model();
    for (const std::size_t kept : {3U, 6U, 12U, 24U}) {
      CAPTURE(kept);
      CHECK(contains(problem_of_bytes(w.bytes().substr(0, kept)), "not a complete ONNX model"));
    }
    std::string name(1 << 20, 'a');  // a graph of 1 MiB, of which a few bytes are there
    w.model().mutable_graph()->mutable_node(0)->set_name(name);
    const std::string text = problem_of_bytes(w.bytes().substr(0, 100));
    CHECK(contains(text, "its graph has 10"));
  }

  TEST_CASE("chains of any length are walked without recursion") {
    constexpr int kLong = 60'000;
    OnnxWriter constants;
    const std::string root = constants.node(
        "Sqrt",
        {constants.node("Add", {constants.input("x", {4, 8}), constants.parameter("p", {4, 8})})});
    std::string one = constants.number(1);
    for (int i = 0; i < kLong; ++i)
      one = constants.node("Identity", {one});
    constants.output(constants.node("Div", {one, root}));
    CHECK(problem(constants).empty());

    OnnxWriter views;
    std::string weight = views.parameter("w", {8, 8});
    for (int i = 0; i < kLong / 10; ++i)
      weight = views.node("Transpose", {weight}, {{"perm", OnnxDims{1, 0}}});
    views.output(views.node("MatMul", {views.input("x", {4, 8}), weight}));
    CHECK(problem(views).empty());
  }

  TEST_CASE("sizes beyond every tensor and windows without extent are errors at their node") {
    constexpr std::int64_t kHuge = std::int64_t{1} << 62;
    const auto fails = [](const std::string& op, const OnnxAttributes& attributes,
                          std::string_view text) {
      OnnxProbe probe({1, 2, 8, 8});
      std::vector<std::string> inputs{probe.x};
      if (op == "Conv") inputs.push_back(probe.w.parameter("w", {2, 2, 3, 3}));
      probe.w.output(probe.w.node(op, inputs, attributes, "/odd"));
      CAPTURE(op);
      CHECK(contains(problem(probe.w), "node '/odd' (" + op + "): " + std::string(text)));
    };
    for (const std::string op : {"MaxPool", "AveragePool"}) {
      fails(op, {{"kernel_shape", OnnxDims{0, 0}}}, "kernels, strides and dilations start at 1");
      fails(op, {{"kernel_shape", OnnxDims{2, 2}}, {"strides", OnnxDims{0, 1}}}, "kernels, str");
      fails(op, {{"kernel_shape", OnnxDims{kHuge, 2}}}, "its attribute kernel_shape has");
    }
    fails("Conv", {{"pads", OnnxDims{kHuge, kHuge, kHuge, kHuge}}}, "its attribute pads has");
    fails("Conv", {{"dilations", OnnxDims{kHuge, kHuge}}}, "its attribute dilations has");
    fails("Conv", {{"dilations", OnnxDims{1 << 30, 1}}}, "a kernel of 3 with a dilation of");
    fails("Conv", {{"strides", OnnxDims{kHuge, kHuge}}}, "its attribute strides has");
    for (const std::int64_t groups : {std::int64_t{0}, std::int64_t{-1}, kHuge})
      fails("Conv", {{"group", groups}}, std::to_string(groups) + " groups are not possible");
    fails("DepthToSpace", {{"blocksize", kHuge}}, "a block of");
    fails("Flatten", {{"axis", std::int64_t{9}}}, "axis 9 does not exist");
    fails("Cast", {{"to", std::int64_t{99}}}, "element type 99 is not simulated");

    for (const OnnxDims& parts : {OnnxDims{-4, 12}, OnnxDims{0, 8}}) {
      OnnxProbe probe({1, 8});
      const auto split = probe.w.nodes("Split", {probe.x, probe.w.integers(parts)}, 2,
                                       {{"axis", std::int64_t{1}}}, "/odd");
      probe.w.output(probe.w.node("Concat", split, {{"axis", std::int64_t{1}}}));
      CHECK(contains(problem(probe.w), "node '/odd' (Split): its parts ["));
    }
  }

  TEST_CASE("a node without a module is named without a colon too many") {
    OnnxProbe probe({1, 3, 8, 8});
    probe.w.output(probe.w.node("Conv", {probe.x, probe.w.parameter("w", {2, 2, 3, 3})}));
    CHECK(contains(problem(probe.w), "(Conv): conv2d: 3 input channels"));
  }

  TEST_CASE("unknown names that resemble nothing are reported with the known ones") {
    OnnxOptions roles;
    roles.roles = {{"completely.different", OnnxRole::kBuffer}};
    CHECK(contains(problem(small_model(), roles), "; known: 'fc.weight', 'fc.bias'"));
    OnnxOptions output;
    output.output = "completely.different";
    CHECK(contains(problem(small_model(), output), "; known: 'Gemm_0_output_0'"));
  }

  TEST_CASE("a flipped byte is an error or another model, never a crash") {
    const std::string bytes = small_model().bytes();
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      for (const int bit : {0, 3, 7}) {
        std::string damaged = bytes;
        damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
        const OnnxFile file(damaged);
        try {
          static_cast<void>(import_onnx(file.path(), {}, {}));
        } catch (const UserError& error) {
          CHECK(std::string(error.what()).find(file.path()) != std::string::npos);
        }
      }
    }
  }

  TEST_CASE("unknown operators are named all at once, with their nodes") {
    OnnxWriter w = small_model();
    const std::string x = w.model().graph().node(0).output(0);
    const std::string a = w.node("NonMaxSuppression", {x}, {}, "/head/NMS");
    const std::string b = w.node("FancyOp", {a}, {}, "/head/Fancy");
    w.model().mutable_graph()->mutable_node(2)->set_domain("com.example");
    w.output(w.node("NonMaxSuppression", {b}, {}, "/head/NMS_1"));
    const std::string text = problem(w);
    CHECK(contains(text, "operators that are not known"));
    CHECK(contains(text, "NonMaxSuppression (node '/head/NMS', '/head/NMS_1')"));
    CHECK(contains(text, "com.example.FancyOp (node '/head/Fancy')"));
  }

  TEST_CASE("open axes are named, and bound by batch_axis or a key") {
    OnnxWriter w;
    const std::string x = w.input("x", {-1, -1, 8});
    auto* shape =
        w.model().mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type();
    shape->mutable_shape()->mutable_dim(1)->set_dim_param("length");
    w.output(w.linear(x, "fc", 8, 4));
    const std::string text = problem(w);
    CHECK(contains(text, "axis 0 of input 'x'"));
    CHECK(contains(text, "'length' (axis 1 of input 'x')"));
    CHECK(contains(text, "batch_axis: 0"));
    ModelOptions options;
    options.micro_batch = 3;
    const Graph graph = imported(w, {.batch_axis = 0, .axes = {{"length", 5}}}, options);
    CHECK(graph.tensors[graph.logits].shape == Shape{3, 5, 4});
    CHECK(graph.samples == 3);
    const Graph same = imported(w, {.axes = {{"x.0", 3}, {"x.1", 5}}}, options);
    CHECK(same.tensors[same.logits].shape == Shape{3, 5, 4});
    CHECK(contains(problem(w, {.batch_axis = 0, .axes = {{"lenght", 5}}}), "model.axes.lenght"));
    CHECK(contains(problem(w, {.batch_axis = 7}), "model.batch_axis"));
  }

  TEST_CASE("shapes that do not fit are reported at their node") {
    OnnxWriter w;
    const std::string x = w.input("x", {4, 8});
    const std::string y = w.node("Gemm", {x, w.parameter("fc.weight", {3, 9})},
                                 {{"transB", std::int64_t{1}}}, "/fc/Gemm");
    w.output(y);
    CHECK(contains(problem(w), "node '/fc/Gemm' (Gemm): "));
    CHECK(contains(problem(w), "the input's last axis is 8, but the weight takes 9 features"));

    OnnxProbe probe({2, 8});
    probe.w.output(probe.w.reshape(probe.x, {3, -1}));
    CHECK(contains(problem(probe.w), "16 elements do not fill the shape [3, -1]"));
  }

  TEST_CASE("nodes without operands or results are errors") {
    for (const std::string op : {"Sigmoid", "Mul", "BatchNormalization", "Concat", "Where", "Split",
                                 "Sqrt", "Reshape", "Transpose", "LSTM", "ReduceMean", "Conv"}) {
      CAPTURE(op);
      OnnxWriter none = small_model();
      none.output(none.node(op, {}, {}, "/odd"));
      CHECK(contains(problem(none), "node '/odd' (" + op + "): operand 0 is missing"));
      OnnxWriter empty = small_model();
      empty.output(empty.node(op, {""}, {}, "/odd"));
      CHECK(contains(problem(empty), "operand 0 is missing"));
      OnnxWriter nameless = small_model();
      nameless.node(op, {"x"});
      auto& last = *nameless.model().mutable_graph()->mutable_node(1);
      last.clear_name();
      last.set_output(0, "");
      CHECK(contains(problem(nameless), "node 1 of the file (" + op + "): it has no output"));
      OnnxWriter silent = small_model();
      silent.nodes(op, {"x"}, 0, {}, "/odd");
      CHECK(contains(problem(silent), "it has no output"));
    }
    OnnxWriter half = small_model();
    half.output(half.node("Mul", {"x"}, {}, "/odd"));
    CHECK(contains(problem(half), "operand 1 is missing"));
  }

  TEST_CASE("a size that depends on data cannot be inferred") {
    OnnxProbe probe({2, 8});
    const std::string shape = probe.w.input("shape", {2}, kOnnxInt64);
    probe.w.output(probe.w.node("Reshape", {probe.x, shape}, {}, "/Reshape"));
    CHECK(contains(problem(probe.w),
                   "node '/Reshape' (Reshape): its operand 'shape' is computed "
                   "from data or was stripped"));
  }

  TEST_CASE("unknown operator sets, missing inputs and values that nothing computes are errors") {
    OnnxWriter old(9);
    old.output(old.input("x", {1, 2}));
    CHECK(contains(problem(old), "operator set 9; sets 11 to 20 are read"));
    OnnxWriter future(21);
    future.output(future.input("x", {1, 2}));
    CHECK(contains(problem(future), "operator set 21; sets 11 to 20 are read"));
    OnnxWriter dangling;
    dangling.input("x", {1, 2});
    dangling.output(dangling.node("Relu", {"ghost"}, {}, "/act/Relu"));
    CHECK(contains(problem(dangling), "node '/act/Relu' (Relu) reads 'ghost', which nothing"));
    OnnxWriter twice = small_model();
    twice.parameter("fc.weight", {3, 8});
    CHECK(contains(problem(twice), "two initializers are called 'fc.weight'"));
    OnnxWriter none;
    none.output(none.node("Relu", {none.input("x", {1, 2})}));
    CHECK(contains(problem(none), "no output depends on a parameter"));
  }

  TEST_CASE("roles and outputs that do not exist are reported with the nearest name") {
    OnnxOptions roles;
    roles.roles = {{"fc.wieght", OnnxRole::kBuffer}};
    CHECK(contains(problem(small_model(), roles), "did you mean 'fc.weight'?"));
    OnnxOptions output;
    output.output = "Gemm_0_output";
    CHECK(contains(problem(small_model(), output), "did you mean 'Gemm_0_output_0'?"));
  }

  TEST_CASE("the keys of a model in ONNX are read and checked") {
    const auto decode = [](const std::string& text) {
      const Value document = parse_document(text, "s.yaml");
      const Decoder decoder(document);
      const OnnxOptions options = decode_onnx_options(decoder);
      decoder.finish();
      return options;
    };
    const OnnxOptions options =
        decode("batch_axis: 0\naxes: {length: 128}\nroles: {cos: buffer, w: parameter}\n");
    CHECK(options.batch_axis == 0);
    CHECK(options.axes.front().second == 128);
    CHECK(options.roles[0].second == OnnxRole::kBuffer);
    CHECK(options.roles[1].second == OnnxRole::kParameter);
    CHECK_THROWS_AS(decode("roles: {cos: bufer}\n"), UserError);
    CHECK_THROWS_AS(decode("axes: {length: 0}\n"), UserError);
    CHECK_THROWS_AS(decode("batch_axis: -1\n"), UserError);
    CHECK_THROWS_AS(decode("batch: 1\n"), UserError);
  }
}

}  // namespace tidemark::test::onnx_errors_test
#endif
