// Small ONNX files, written with protobuf as exporters write them.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graph/import/onnx/onnx.pb.h"

namespace tidemark::test {

using OnnxAttributeValue =
    std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>>;
using OnnxAttributes = std::vector<std::pair<std::string, OnnxAttributeValue>>;
using OnnxDims = std::vector<std::int64_t>;

inline constexpr int kOnnxFloat = 1;
inline constexpr int kOnnxInt64 = 7;
inline constexpr int kOnnxBool = 9;

class OnnxWriter {
 public:
  explicit OnnxWriter(std::int64_t opset = 14) {
    model_.set_ir_version(7);
    model_.set_producer_name("tidemark tests");
    model_.add_opset_import()->set_version(opset);
  }
  onnx_file::ModelProto& model() { return model_; }

  // Extents of -1 are left open.
  std::string input(const std::string& name, const OnnxDims& dims, int type = kOnnxFloat) {
    onnx_file::ValueInfoProto& value = *model_.mutable_graph()->add_input();
    value.set_name(name);
    value.mutable_type()->mutable_tensor_type()->set_elem_type(type);
    auto* shape = value.mutable_type()->mutable_tensor_type()->mutable_shape();
    for (std::int64_t extent : dims) {
      auto* dim = shape->add_dim();
      if (extent > 0) dim->set_dim_value(extent);
    }
    return name;
  }
  // An initializer without data: weights that were stripped.
  std::string parameter(const std::string& name, const OnnxDims& dims, int type = kOnnxFloat) {
    onnx_file::TensorProto& tensor = *model_.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(type);
    tensor.set_data_location(1);
    for (std::int64_t extent : dims)
      tensor.add_dims(extent);
    return name;
  }
  std::string buffer(const std::string& name, const OnnxDims& dims, int type = kOnnxFloat) {
    metadata("tidemark.role:" + name, "buffer");
    return parameter(name, dims, type);
  }
  void metadata(const std::string& key, const std::string& value) {
    auto* entry = model_.add_metadata_props();
    entry->set_key(key);
    entry->set_value(value);
  }

  // Adds a node with one output and returns its name. `name` is the node's, with the path of its
  // module.
  std::string node(const std::string& op, const std::vector<std::string>& inputs,
                   const OnnxAttributes& attributes = {}, const std::string& name = {}) {
    return nodes(op, inputs, 1, attributes, name).front();
  }
  std::vector<std::string> nodes(const std::string& op, const std::vector<std::string>& inputs,
                                 int outputs, const OnnxAttributes& attributes = {},
                                 const std::string& name = {}) {
    onnx_file::NodeProto& proto = *model_.mutable_graph()->add_node();
    const std::string unique = op + "_" + std::to_string(count_++);
    proto.set_name(name.empty() ? unique : name);
    proto.set_op_type(op);
    for (const std::string& input : inputs)
      proto.add_input(input);
    std::vector<std::string> results;
    for (int i = 0; i < outputs; ++i) {
      results.push_back(unique + "_output_" + std::to_string(i));
      proto.add_output(results.back());
    }
    for (const auto& [key, value] : attributes)
      add_attribute(proto, key, value);
    return results;
  }

  // Constants: a Python number, a shape.
  std::string number(double value) {
    const auto narrow = static_cast<float>(value);
    std::string raw(sizeof narrow, '\0');
    std::memcpy(raw.data(), &narrow, sizeof narrow);
    return constant(kOnnxFloat, {}, raw);
  }
  std::string integer(std::int64_t value) { return constant(kOnnxInt64, {}, bytes_of({value})); }
  std::string integers(const OnnxDims& values) {
    return constant(kOnnxInt64, {static_cast<std::int64_t>(values.size())}, bytes_of(values));
  }
  std::string constant(int type, const OnnxDims& dims, const std::string& raw) {
    onnx_file::NodeProto& proto = *model_.mutable_graph()->add_node();
    const std::string unique = "Constant_" + std::to_string(count_++);
    proto.set_name(unique);
    proto.set_op_type("Constant");
    proto.add_output(unique + "_output_0");
    onnx_file::AttributeProto& attribute = *proto.add_attribute();
    attribute.set_name("value");
    attribute.set_type(4);
    attribute.mutable_t()->set_data_type(type);
    for (std::int64_t extent : dims)
      attribute.mutable_t()->add_dims(extent);
    attribute.mutable_t()->set_raw_data(raw);
    return proto.output(0);
  }
  static std::string bytes_of(const OnnxDims& values) {
    std::string raw(values.size() * sizeof(std::int64_t), '\0');
    std::memcpy(raw.data(), values.data(), raw.size());
    return raw;
  }

  void output(const std::string& name) { model_.mutable_graph()->add_output()->set_name(name); }

  // nn.Linear on three and more axes as PyTorch 1.13 exports it.
  std::string linear(const std::string& x, const std::string& module, std::int64_t in,
                     std::int64_t out, bool bias = true) {
    const std::string path = "/" + module + "/";
    const std::string weight = parameter(module + ".weight", {out, in});
    const std::string turned =
        node("Transpose", {weight}, {{"perm", OnnxDims{1, 0}}}, path + "Transpose");
    const std::string product = node("MatMul", {x, turned}, {}, path + "MatMul");
    if (!bias) return product;
    return node("Add", {parameter(module + ".bias", {out}), product}, {}, path + "Add");
  }
  std::string reshape(const std::string& x, const OnnxDims& shape) {
    return node("Reshape", {x, integers(shape)});
  }
  std::string transpose(const std::string& x, const OnnxDims& permutation) {
    return node("Transpose", {x}, {{"perm", permutation}});
  }

  [[nodiscard]] std::string bytes() const { return model_.SerializeAsString(); }

 private:
  static void add_attribute(onnx_file::NodeProto& node, const std::string& key,
                            const OnnxAttributeValue& value) {
    onnx_file::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(key);
    if (const auto* i = std::get_if<std::int64_t>(&value)) {
      attribute.set_type(2);
      attribute.set_i(*i);
    } else if (const auto* f = std::get_if<double>(&value)) {
      attribute.set_type(1);
      attribute.set_f(static_cast<float>(*f));
    } else if (const auto* s = std::get_if<std::string>(&value)) {
      attribute.set_type(3);
      attribute.set_s(*s);
    } else {
      attribute.set_type(7);
      for (std::int64_t item : std::get<OnnxDims>(value))
        attribute.add_ints(item);
    }
  }

  onnx_file::ModelProto model_;
  int count_ = 0;
};

// A file that is removed with this object.
class OnnxFile {
 public:
  explicit OnnxFile(const std::string& bytes, const std::string& name = "model.onnx")
      : folder_(std::filesystem::temp_directory_path() /
                ("tidemark_onnx_" + std::to_string(reinterpret_cast<std::uintptr_t>(this)))),
        path_((folder_ / name).string()) {
    std::filesystem::create_directories(folder_);
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  explicit OnnxFile(const OnnxWriter& writer) : OnnxFile(writer.bytes()) {}
  OnnxFile(const OnnxFile&) = delete;
  OnnxFile& operator=(const OnnxFile&) = delete;
  ~OnnxFile() { std::filesystem::remove_all(folder_); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::filesystem::path folder_;
  std::string path_;
};

}  // namespace tidemark::test
