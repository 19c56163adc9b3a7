#include "graph/import/onnx/rebatch.hpp"

#include <algorithm>

#include "graph/import/onnx/fold.hpp"

namespace tidemark {
namespace rebatch_detail {
namespace {

using List = std::vector<std::int64_t>;

std::optional<Shape> exported_shape(const OnnxLowering& l, OnnxValueId value) {
  return l.exported_shapes().empty() ? std::nullopt : l.exported_shapes()[value];
}

std::int64_t inner_elements(const List& dims, std::size_t axis) {
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < dims.size(); ++i)
    inner *= dims[i];
  return inner;
}

// Whether [length, batch * heads, width] is transposed next: to heads in front, of keys also to
// columns.
bool reads_as_heads(const OnnxLowering& l) {
  const OnnxNodeId reader = l.uses().only_reader(l.node().outputs.front());
  if (!reader.valid() || l.file().nodes[reader].op != "Transpose") return false;
  const List permutation = l.file().nodes[reader].list("perm");
  return permutation == List{1, 0, 2} || permutation == List{1, 2, 0};
}

// Returns the axis of `target` that holds the batch; target.size() when none can.
std::size_t batch_axis_of(const OnnxLowering& l, const List& old_dims, std::size_t axis,
                          const List& target, std::int64_t batch) {
  const std::int64_t inner = inner_elements(old_dims, axis);
  if (axis < target.size() && old_dims[axis] == batch && target[axis] == batch &&
      inner_elements(target, axis) == inner) {
    return axis;
  }
  const bool keeps_length = old_dims.size() == 3 && axis == 1 && target.front() == old_dims.front();
  const bool heads = is_attention_head(l) || (keeps_length && reads_as_heads(l));
  if (target.size() == 3 && heads && target[1] % batch == 0) return 1;
  const auto alone = std::count(target.begin(), target.end(), batch);
  if (alone == 1) {
    return static_cast<std::size_t>(std::find(target.begin(), target.end(), batch) -
                                    target.begin());
  }
  for (std::size_t j = 0; j < target.size(); ++j) {
    const std::int64_t below = inner_elements(target, j);
    if (target[j] % batch == 0 && below <= inner * (old_dims[axis] / batch) &&
        below * target[j] >= inner * batch) {
      return j;
    }
  }
  return target.size();
}

}  // namespace
}  // namespace rebatch_detail

bool is_attention_head(const OnnxLowering& l) {
  return l.is_chunk(l.node().inputs[0]) && rebatch_detail::reads_as_heads(l);
}

std::optional<rebatch_detail::List> rebatched_reshape(OnnxLowering& l,
                                                      const rebatch_detail::List& dims,
                                                      const rebatch_detail::List& wanted,
                                                      bool allow_zero) {
  const auto old_input = rebatch_detail::exported_shape(l, l.node().inputs[0]);
  const auto old_output = rebatch_detail::exported_shape(l, l.node().outputs.front());
  const auto old_batch = rebatch_detail::exported_shape(l, l.file().inputs.front().value);
  if (!old_input || !old_output || !old_batch) return std::nullopt;
  const rebatch_detail::List old_dims(old_input->begin(), old_input->end());
  const rebatch_detail::List target(old_output->begin(), old_output->end());
  if (old_dims.size() != dims.size() || target.size() != wanted.size()) return std::nullopt;
  const std::int64_t batch = l.exported_batch();
  std::size_t axis = 0;
  while (axis < dims.size() && dims[axis] == old_dims[axis])
    ++axis;
  if (axis == dims.size() || old_dims[axis] % batch != 0) return std::nullopt;
  // The shape is right already: the one computed from the new shape differs from the file's at the
  // batch, and one -1 at the place of the batch absorbs it.
  const std::size_t place = rebatch_detail::batch_axis_of(l, old_dims, axis, target, batch);
  if (place == target.size()) return std::nullopt;
  rebatch_detail::List result = target;
  result[place] = target[place] / batch * l.batch();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const bool explicit_extent = wanted[i] > 0;
    if (explicit_extent && wanted[i] != target[i]) return std::nullopt;  // computed
  }
  return reshaped_dims(dims, result, allow_zero);
}

rebatch_detail::List rebatched_expand(OnnxLowering& l, const rebatch_detail::List& dims,
                                      rebatch_detail::List wanted) {
  const auto old_output = rebatch_detail::exported_shape(l, l.node().outputs.front());
  if (!old_output || wanted.size() < 2 || wanted.size() != dims.size() || dims[0] != 1) {
    return wanted;
  }
  // x.repeat() is an Expand to its own shape, for axes that it adds, and a Tile.
  const OnnxNodeId reader = l.uses().only_reader(l.node().outputs.front());
  if (reader.valid() && l.file().nodes[reader].op == "Tile") return wanted;
  const rebatch_detail::List target(old_output->begin(), old_output->end());
  const std::int64_t batch = l.exported_batch();
  // If nothing else is expanded, the Expand is there for the batch.
  const bool only_batch = std::equal(target.begin() + 1, target.end(), dims.begin() + 1);
  if (wanted[0] == batch && target[0] == batch && (batch > 1 || only_batch)) wanted[0] = l.batch();
  return wanted;
}

}  // namespace tidemark
