#include "policies/eviction/online/log_reader.hpp"

#include <unordered_map>

#include <fmt/format.h>

#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"
#include "policies/eviction/online/log_line.hpp"

namespace tidemark {
namespace log_reader_detail {
namespace {

// Limit of the log's totals, so that sums over a whole replay stay exact in 64 bits.
constexpr std::int64_t kLargestTotal = std::int64_t{1} << 56;

class LogParser {
 public:
  LogParser(std::string_view text, const std::string& file) : lines_(text, file) {}
  EvictionLog parse();

 private:
  // A name of the program that was logged.
  struct Variable {
    std::string name;
    std::uint32_t tensor = 0;
  };

  void instruction();
  void constant();
  void call();
  void mutate();
  void copy();
  void copy_from();
  void release(std::string_view name);
  void drop(std::uint32_t tensor);

  Bytes memory_of(std::string_view name);
  std::uint32_t begin_operator(std::int64_t cost, const std::vector<std::uint32_t>& inputs);
  std::uint32_t add_output(Bytes bytes, std::string_view name);
  std::uint32_t add_view(std::uint32_t of);
  void end_operator(LogStepKind kind);
  void add_bytes(Bytes bytes);
  void bind(std::string_view name, std::uint32_t tensor);
  [[nodiscard]] std::uint32_t tensor_called(std::string_view name) const;
  void read_inputs(std::vector<std::uint32_t>& inputs);

  LogLines lines_;
  EvictionLog log_;
  std::vector<Variable> variables_;  // in the order of first definition
  std::unordered_map<std::string, std::uint32_t> variable_of_;
  std::vector<std::int64_t> references_;  // by tensor, as the log counts them
  Bytes total_bytes_;
  std::int64_t total_cost_ = 0;
};

std::uint32_t LogParser::tensor_called(std::string_view name) const {
  const auto found = variable_of_.find(std::string(name));
  if (found == variable_of_.end()) {
    lines_.fail(
        fmt::format("{} has not been defined before; a CONSTANT, a CALL or a COPY must "
                    "come first",
                    tidemark::quoted_excerpt(name)));
  }
  return variables_[found->second].tensor;
}

void LogParser::bind(std::string_view name, std::uint32_t tensor) {
  const auto [at, added] =
      variable_of_.try_emplace(std::string(name), static_cast<std::uint32_t>(variables_.size()));
  if (added) {
    variables_.push_back({std::string(name), tensor});
  } else {
    variables_[at->second].tensor = tensor;
  }
}

std::uint32_t LogParser::begin_operator(std::int64_t cost,
                                        const std::vector<std::uint32_t>& inputs) {
  total_cost_ += cost;
  if (total_cost_ > kLargestTotal) lines_.fail("TIME sums to more than 2^56; use a coarser unit");
  log_.operators.push_back(
      {.cost = cost, .first_output = static_cast<std::uint32_t>(log_.tensors.size())});
  log_.inputs.values.insert(log_.inputs.values.end(), inputs.begin(), inputs.end());
  log_.inputs.close_row();
  return static_cast<std::uint32_t>(log_.operators.size() - 1);
}

void LogParser::add_bytes(Bytes bytes) {
  total_bytes_ += bytes;
  if (total_bytes_.count > kLargestTotal) lines_.fail("MEMORY sums to more than 2^56 bytes");
  log_.operators.back().bytes += bytes;
}

std::uint32_t LogParser::add_output(Bytes bytes, std::string_view name) {
  add_bytes(bytes);
  const auto tensor = static_cast<std::uint32_t>(log_.tensors.size());
  const auto begin = static_cast<std::uint32_t>(log_.names.size());
  log_.names += name;
  log_.storages.push_back({.bytes = bytes,
                           .root = tensor,
                           .name_begin = begin,
                           .name_end = static_cast<std::uint32_t>(log_.names.size())});
  log_.tensors.push_back({.bytes = bytes,
                          .op = static_cast<std::uint32_t>(log_.operators.size() - 1),
                          .storage = static_cast<std::uint32_t>(log_.storages.size() - 1)});
  references_.push_back(1);
  return tensor;
}

std::uint32_t LogParser::add_view(std::uint32_t of) {
  log_.tensors.push_back({.bytes = {},
                          .op = static_cast<std::uint32_t>(log_.operators.size() - 1),
                          .storage = log_.tensors[of].storage});
  references_.push_back(1);
  return static_cast<std::uint32_t>(log_.tensors.size() - 1);
}

void LogParser::end_operator(LogStepKind kind) {
  EvictionLog::Operator& op = log_.operators.back();
  op.outputs = static_cast<std::uint32_t>(log_.tensors.size()) - op.first_output;
  if (op.outputs == 0) return;  // nothing to keep, and nothing that could be recomputed by it
  log_.steps.push_back({kind, static_cast<std::uint32_t>(log_.operators.size() - 1)});
}

// Reads the line MEMORY that follows the definition of `name`.
Bytes LogParser::memory_of(std::string_view name) {
  lines_.next_for(name, "MEMORY");
  return Bytes(lines_.line().whole("MEMORY"));
}

void LogParser::constant() {
  const std::string name(lines_.line().text("NAME"));
  begin_operator(0, {});
  const std::uint32_t tensor = add_output(memory_of(name), name);
  end_operator(LogStepKind::kConstant);
  bind(name, tensor);
}

void LogParser::read_inputs(std::vector<std::uint32_t>& inputs) {
  for (const std::string& name : lines_.line().texts("ARGS"))
    inputs.push_back(tensor_called(name));
}

void LogParser::call() {
  std::vector<std::uint32_t> inputs;
  read_inputs(inputs);
  const std::vector<std::string> results = lines_.line().texts("RESULT");
  begin_operator(lines_.line().whole("TIME"), inputs);
  const auto first = static_cast<std::uint32_t>(log_.tensors.size());
  for (const std::string& name : results) {
    const Bytes bytes = memory_of(name);
    lines_.next_for(name, "ALIAS");
    const std::int64_t alias = lines_.line().integer("ALIAS");
    if (alias < -1 || alias >= static_cast<std::int64_t>(inputs.size())) {
      lines_.fail(fmt::format("ALIAS is {}; expected -1 or the position of one of {} ARGS", alias,
                              inputs.size()));
    }
    if (alias < 0) {
      add_output(bytes, name);
    } else {
      add_view(inputs[static_cast<std::size_t>(alias)]);
    }
  }
  end_operator(LogStepKind::kCompute);
  for (std::uint32_t i = 0; i < results.size(); ++i)
    bind(results[i], first + i);
}

// In the program the operator is in place; here it makes a new storage, as every tensor has one
// value (DTR, section 3.3).
void LogParser::mutate() {
  std::vector<std::uint32_t> inputs;
  read_inputs(inputs);
  const std::vector<std::string> names = lines_.line().texts("ARGS");
  const std::vector<std::int64_t> mutated = lines_.line().integers("MUTATE");
  begin_operator(lines_.line().whole("TIME"), inputs);
  const auto first = static_cast<std::uint32_t>(log_.tensors.size());
  for (const std::int64_t index : mutated) {
    if (index < 0 || index >= static_cast<std::int64_t>(inputs.size())) {
      lines_.fail(
          fmt::format("MUTATE names argument {}, but there are {} ARGS", index, inputs.size()));
    }
    const auto at = static_cast<std::size_t>(index);
    const EvictionLog::Storage& old = log_.storages[log_.tensors[inputs[at]].storage];
    add_output(old.bytes, names[at] + '$');
  }
  end_operator(LogStepKind::kCompute);
  for (std::uint32_t i = 0; i < mutated.size(); ++i) {
    const auto at = static_cast<std::size_t>(mutated[i]);
    drop(tensor_called(names[at]));
    bind(names[at], first + i);
  }
}

void LogParser::drop(std::uint32_t tensor) {
  --references_[tensor];
  log_.steps.push_back({LogStepKind::kRelease, tensor});
}

void LogParser::copy() {
  const std::uint32_t tensor = tensor_called(lines_.line().text("SRC"));
  ++references_[tensor];
  log_.steps.push_back({LogStepKind::kRetain, tensor});
  bind(lines_.line().text("DST"), tensor);
}

void LogParser::copy_from() {
  const std::string destination(lines_.line().text("DST"));
  const std::uint32_t tensor = tensor_called(lines_.line().text("SRC"));
  drop(tensor_called(destination));
  ++references_[tensor];
  log_.steps.push_back({LogStepKind::kRetain, tensor});
  bind(destination, tensor);
}

void LogParser::release(std::string_view name) {
  const auto found = variable_of_.find(std::string(name));
  if (found != variable_of_.end()) drop(variables_[found->second].tensor);
}

void LogParser::instruction() {
  const std::string kind(lines_.line().text("INSTRUCTION"));
  if (kind == "CALL") return call();
  if (kind == "RELEASE") return release(lines_.line().text("NAME"));
  if (kind == "CONSTANT") return constant();
  if (kind == "MUTATE") return mutate();
  if (kind == "COPY") return copy();
  if (kind == "COPY_FROM") return copy_from();
  if (kind == "ANNOTATE") return;
  if (kind == "MEMORY" || kind == "ALIAS") {
    lines_.fail(fmt::format("{} must follow the CONSTANT or CALL that defines its NAME", kind));
  }
  lines_.fail(
      fmt::format("there is no instruction {}; known are CONSTANT, MEMORY, CALL, ALIAS, "
                  "MUTATE, COPY, COPY_FROM, RELEASE, ANNOTATE",
                  tidemark::quoted_excerpt(kind)));
}

EvictionLog LogParser::parse() {
  bool started = false;
  while (lines_.next()) {
    if (started) {
      instruction();
    } else {
      started = lines_.line().text("INSTRUCTION") == "ANNOTATE" &&
                lines_.line().text("ANNOTATION") == "START";
    }
  }
  if (!started) {
    lines_.fail(R"(nothing to replay: the line {"INSTRUCTION":"ANNOTATE","ANNOTATION":"START"} is )"
                "missing");
  }
  for (const Variable& variable : variables_) {
    if (references_[variable.tensor] > 0)
      log_.steps.push_back({LogStepKind::kKeep, variable.tensor});
  }
  connect_storages(log_);
  return std::move(log_);
}

}  // namespace
}  // namespace log_reader_detail

EvictionLog parse_eviction_log(std::string_view text, const std::string& file) {
  return log_reader_detail::LogParser(text, file).parse();
}

EvictionLog read_eviction_log(const std::string& file) {
  return parse_eviction_log(read_text_file(file), file);
}

}  // namespace tidemark
