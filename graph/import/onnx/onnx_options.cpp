#include "graph/import/onnx/onnx_options.hpp"

#include <string_view>

#include "graph/ir/tensor.hpp"

namespace tidemark {

OnnxOptions decode_onnx_options(const Decoder& model) {
  OnnxOptions options;
  options.batch_axis = model.maybe<std::int64_t>("batch_axis", between(0, kMaxRank - 1));
  for (const auto& [name, extent] : model.optional_child("axes").entries()) {
    options.axes.emplace_back(
        name, extent.as<std::int64_t>(between(1, static_cast<double>(kLongestAxis))));
  }
  constexpr std::string_view kRoleNames[] = {"parameter", "buffer"};
  const Decoder roles = model.optional_child("roles");
  for (const auto& [name, value] : roles.entries()) {
    const std::string role = roles.required_word(name, kRoleNames);
    options.roles.emplace_back(name, role == "buffer" ? OnnxRole::kBuffer : OnnxRole::kParameter);
  }
  options.in_place = model.list<std::string>("in_place");
  options.detach = model.list<std::string>("detach");
  options.shared = model.list<std::string>("shared");
  options.output = model.optional<std::string>("output", "");
  return options;
}

}  // namespace tidemark
