// The file as protobuf's parser reads it. Messages are parsed by generated code except for the way
// down to the initializers, which is walked by hand: the bytes of weights are skipped in the stream
// and never copied, whatever the file's size.
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/paths.hpp"
#include "graph/core/piped_files.hpp"
#include "graph/import/onnx/onnx_model.hpp"

#if TIDEMARK_READS_ONNX
#include <limits>
#include <optional>

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <unistd.h>

#include "graph/import/onnx/embedding_bag.hpp"
#include "graph/import/onnx/onnx.pb.h"
#include "graph/import/onnx/read_tensor.hpp"
#endif

namespace tidemark {

std::string OnnxModel::describe(OnnxNodeId node) const {
  const OnnxNode& n = nodes[node];
  if (!n.name.empty()) return fmt::format("node {} ({})", tidemark::quoted_excerpt(n.name), n.op);
  if (n.outputs.empty() || !n.outputs.front().valid()) {
    return fmt::format("node {} of the file ({})", node.index(), n.op);
  }
  const std::string& made = names[n.outputs.front()];
  return fmt::format("the node that makes {} ({})", tidemark::quoted_excerpt(made), n.op);
}

#if TIDEMARK_READS_ONNX
namespace read_onnx_detail {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

// Fields of a TensorProto that are longer than this are weights and are skipped.
constexpr int kLongestField = static_cast<int>(kKnownElements.count) * 8;
constexpr std::int64_t kOldestOpset = 11;
constexpr std::int64_t kNewestOpset = 20;

class Reader {
 public:
  // `size`: bytes of the file.
  Reader(const std::string& path, CodedInputStream& in, std::int64_t size) : in_(in), size_(size) {
    model_.path = path;
  }

  OnnxModel read() {
    bool has_graph = false;
    walk([&](int field, std::uint32_t tag) {
      if (field == 1 && WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_VARINT) {
        std::uint64_t version = 0;
        if (!in_.ReadVarint64(&version)) return false;
        ir_version_ = static_cast<std::int64_t>(version);
        return true;
      }
      if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
        return WireFormatLite::SkipField(&in_, tag);
      }
      if (field == 7) {
        has_graph = true;
        return inside([&] { read_graph(); }, true);
      }
      if (field == 8) {
        const auto set = message<onnx_file::OperatorSetIdProto>();
        if (set.domain().empty() || set.domain() == "ai.onnx") model_.opset = set.version();
        return true;
      }
      if (field == 14) {
        const auto entry = message<onnx_file::StringStringEntryProto>();
        model_.metadata.emplace_back(entry.key(), entry.value());
        return true;
      }
      return WireFormatLite::SkipField(&in_, tag);
    });
    if (!has_graph || ir_version_ <= 0) {
      fail(fmt::format("this is not an ONNX model: it has no {}",
                       has_graph ? "IR version" : "graph"));
    }
    if (model_.opset < kOldestOpset || model_.opset > kNewestOpset) {
      fail(
          fmt::format("it uses operator set {}; sets {} to {} are read: export it again with "
                      "opset_version=17",
                      model_.opset, kOldestOpset, kNewestOpset));
    }
    finish();
    return std::move(model_);
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw UserError({.file = model_.path}, "", problem);
  }
  [[noreturn]] void fail_damaged() const {
    if (!begins_as_model() && nodes_ == 0 && model_.initializers.empty()) {
      fail("this is not an ONNX model");
    }
    fail(
        fmt::format("this is not a complete ONNX model: it cannot be read any further after {} "
                    "nodes and {} initializers (byte {} of {})",
                    nodes_, model_.initializers.size(), in_.CurrentPosition(), size_));
  }
  // An IR version is the first thing that exporters write; there have been about ten.
  [[nodiscard]] bool begins_as_model() const { return ir_version_ >= 1 && ir_version_ <= 64; }

  // Calls `read_field(number, tag)` for every field until the end of the message.
  template <class ReadField>
  void walk(ReadField read_field) {
    while (const std::uint32_t tag = in_.ReadTag()) {
      if (!read_field(WireFormatLite::GetTagFieldNumber(tag), tag)) fail_damaged();
    }
    if (!in_.ConsumedEntireMessage()) fail_damaged();
  }

  // Reads a length and runs `read_content` with the stream ending there.
  template <class ReadContent>
  bool inside(ReadContent read_content, bool is_graph = false) {
    int length = 0;
    if (!in_.ReadVarintSizeAsInt(&length)) fail_damaged();
    if (length > in_.BytesUntilLimit()) {
      // A first length that is absurd is a file of another kind.
      const bool foreign = is_graph && !begins_as_model() && length / 16 > size_;
      if (!is_graph || foreign) fail_damaged();
      fail(
          fmt::format("this is not a complete ONNX model: its graph has {} bytes, of which {} are "
                      "there; copy or export the file again",
                      length, in_.BytesUntilLimit()));
    }
    const CodedInputStream::Limit outer = in_.PushLimit(length);
    read_content();
    in_.PopLimit(outer);
    return true;
  }

  template <class Message>
  Message message() {
    Message result;
    inside([&] {
      if (!result.MergeFromCodedStream(&in_) || !in_.ConsumedEntireMessage()) fail_damaged();
    });
    return result;
  }

  void read_graph() {
    walk([&](int field, std::uint32_t tag) {
      if (WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
        if (field == 1) return add_node(message<onnx_file::NodeProto>());
        if (field == 5) return inside([&] { read_initializer(); });
        if (field == 11) return add_input(message<onnx_file::ValueInfoProto>());
        if (field == 12) {
          model_.outputs.push_back(id_of(message<onnx_file::ValueInfoProto>().name()));
          return true;
        }
        if (field == 15) fail("it has sparse initializers, which are not read");
      }
      return WireFormatLite::SkipField(&in_, tag);
    });
  }

  // All fields but the long ones are copied and then parsed.
  void read_initializer() {
    std::string kept;
    {
      google::protobuf::io::StringOutputStream stream(&kept);
      CodedOutputStream out(&stream);
      walk([&](int /*field*/, std::uint32_t tag) {
        if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
          if (out.ByteCount() > kLongestField) return WireFormatLite::SkipField(&in_, tag);
          return WireFormatLite::SkipField(&in_, tag, &out);
        }
        int length = 0;
        if (!in_.ReadVarintSizeAsInt(&length) || length > in_.BytesUntilLimit()) return false;
        if (length > kLongestField) return in_.Skip(length);
        std::string bytes;
        if (!in_.ReadString(&bytes, length)) return false;
        out.WriteVarint32(tag);
        out.WriteVarint32(static_cast<std::uint32_t>(length));
        out.WriteString(bytes);
        return true;
      });
    }
    onnx_file::TensorProto proto;
    if (!proto.ParseFromString(kept)) fail_damaged();
    model_.initializers.push_back(
        {id_of(proto.name()),
         onnx_constant(proto,
                       fmt::format("initializer {}", tidemark::quoted_excerpt(proto.name())))});
  }

  OnnxValueId id_of(const std::string& name) {
    if (name.empty()) return {};
    const auto [entry, fresh] = ids_.try_emplace(name, OnnxValueId(model_.names.size()));
    if (fresh) model_.names.push_back(name);
    return entry->second;
  }

  bool add_input(const onnx_file::ValueInfoProto& proto) {
    OnnxInput input{.value = id_of(proto.name())};
    if (!proto.type().has_tensor_type()) {
      fail(fmt::format("input {} is not a tensor", tidemark::quoted_excerpt(proto.name())));
    }
    input_types_.push_back(proto.type().tensor_type().elem_type());
    input_has_shape_.push_back(proto.type().tensor_type().has_shape());
    for (const auto& dim : proto.type().tensor_type().shape().dim()) {
      OnnxExtent extent;
      if (dim.value_case() == onnx_file::TensorShapeProto::Dimension::kDimValue &&
          dim.dim_value() > 0) {
        extent.extent = dim.dim_value();
      } else {
        extent.name = dim.dim_param();
      }
      input.extents.push_back(extent);
    }
    model_.inputs.push_back(std::move(input));
    return true;
  }

  bool add_node(const onnx_file::NodeProto& proto) {
    ++nodes_;
    OnnxNode node{.op = proto.op_type(), .domain = proto.domain(), .name = proto.name()};
    if (node.domain == "ai.onnx") node.domain.clear();
    for (const std::string& input : proto.input())
      node.inputs.push_back(id_of(input));
    for (const std::string& output : proto.output())
      node.outputs.push_back(id_of(output));
    if (const auto bag = embedding_bag_of(proto)) {
      node.op = "EmbeddingBag";
      node.inputs = {id_of(bag->weight), id_of(bag->indices), id_of(bag->ends)};
      node.attributes.emplace_back("mode", bag->mode);
    }
    for (const onnx_file::AttributeProto& attribute : proto.attribute()) {
      if (auto value = onnx_attribute(
              attribute,
              fmt::format("node {} ({})", tidemark::quoted_excerpt(node.name), node.op))) {
        node.attributes.emplace_back(attribute.name(), std::move(*value));
      }
    }
    model_.nodes.push_back(std::move(node));
    return true;
  }

  using Defined = IdVector<OnnxValueId, char>;  // values that something before makes

  void finish() {
    take_offsets_of_bags(model_);
    Defined defined(model_.names.size(), 0);
    define_initializers(defined);
    keep_real_inputs(defined);
    define_node_outputs(defined);
    for (OnnxValueId output : model_.outputs) {
      if (output.valid() && defined[output] != 0) continue;
      fail(fmt::format("its output {} is not computed",
                       tidemark::quoted_excerpt(output.valid() ? model_.names[output] : "")));
    }
    if (model_.outputs.empty()) fail("the graph has no output");
  }

  void define_initializers(Defined& defined) const {
    for (const OnnxInitializer& initializer : model_.initializers) {
      if (!initializer.value.valid()) fail("an initializer has no name");
      if (defined[initializer.value]++ != 0) {
        fail(fmt::format("two initializers are called {}",
                         tidemark::quoted_excerpt(model_.names[initializer.value])));
      }
    }
  }

  // Files of IR version 3 list initializers as inputs too.
  void keep_real_inputs(Defined& defined) {
    std::vector<OnnxInput> real;
    for (std::size_t i = 0; i < model_.inputs.size(); ++i) {
      OnnxInput& input = model_.inputs[i];
      if (!input.value.valid()) fail("an input has no name");
      if (defined[input.value]++ != 0) continue;
      const std::string name = tidemark::quoted_excerpt(model_.names[input.value]);
      // A scalar has a shape without axes; without a shape not even their number is known.
      if (!input_has_shape_[i]) {
        fail(fmt::format("input {} has no shape; export the model with the shapes of its inputs",
                         name));
      }
      input.dtype = onnx_dtype(input_types_[i], fmt::format("input {}", name));
      real.push_back(std::move(input));
    }
    model_.inputs = std::move(real);
  }

  // A node may read only what is defined before it, and a value is defined once.
  void define_node_outputs(Defined& defined) const {
    for (OnnxNodeId id : ids_of(model_.nodes)) {
      for (OnnxValueId input : model_.nodes[id].inputs) {
        if (!input.valid() || defined[input] != 0) continue;
        fail(fmt::format("{} reads {}, which nothing before it computes", model_.describe(id),
                         tidemark::quoted_excerpt(model_.names[input])));
      }
      for (OnnxValueId output : model_.nodes[id].outputs) {
        if (!output.valid()) continue;
        if (defined[output]++ != 0) {
          fail(fmt::format("{} computes {} a second time", model_.describe(id),
                           tidemark::quoted_excerpt(model_.names[output])));
        }
      }
    }
  }

  OnnxModel model_;
  CodedInputStream& in_;
  std::unordered_map<std::string, OnnxValueId> ids_;
  std::vector<int> input_types_;
  std::vector<bool> input_has_shape_;
  std::size_t nodes_ = 0;
  std::int64_t size_;
  std::int64_t ir_version_ = 0;
};

// An open file, closed at the end.
class File {
 public:
  explicit File(const std::string& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace
}  // namespace read_onnx_detail

OnnxModel read_onnx(const std::string& path) {
  std::error_code error;
  const std::filesystem::path file(path);
  if (path_exists(file) && !is_file(file))
    throw UserError({.file = path}, "", "this is not a regular file");
  keep_piped(path);
  const auto size = std::filesystem::file_size(file, error);
  errno = 0;
  const read_onnx_detail::File opened(path);
  if (opened.descriptor() < 0) throw UserError({.file = path}, "", why_not_opened(file));
  if (error) throw UserError({.file = path}, "", "its size cannot be found out");
  if (size == 0) throw UserError({.file = path}, "", "the file is empty");
  if (size > static_cast<std::uintmax_t>(std::numeric_limits<int>::max())) {
    throw UserError({.file = path}, "",
                    "the file is larger than 2 GiB, which protobuf cannot hold; export the weights "
                    "into a file of their own (save_as_external_data)");
  }
  google::protobuf::io::FileInputStream stream(opened.descriptor());
  google::protobuf::io::CodedInputStream in(&stream);
  in.SetTotalBytesLimit(std::numeric_limits<int>::max());
  static_cast<void>(in.PushLimit(static_cast<int>(size)));
  try {
    return read_onnx_detail::Reader(path, in, static_cast<std::int64_t>(size)).read();
  } catch (const UserError& problem) {
    if (!problem.location().file.empty()) throw;
    throw UserError({.file = path}, "", problem.problem());
  }
}

#else

OnnxModel read_onnx(const std::string& path) {
  throw UserError(
      {.file = path}, "",
      "this build of tidemark cannot read ONNX, because protobuf was not installed when "
      "it was made; as root: apt-get install protobuf-compiler libprotobuf-dev; then "
      "run cmake and build again");
}

#endif

}  // namespace tidemark
