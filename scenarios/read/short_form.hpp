// Keys that may be given as one word: `hardware: h100-sxm-80gb` is short for {gpu: h100-sxm-80gb},
// `model: gpt2` for {preset: gpt2}, `allocator: torch` for {kind: torch} and so on. Also small
// tools to build documents.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "graph/core/document.hpp"

namespace tidemark {

// Returns the keys of `model` that name its kind; only one may be given.
[[nodiscard]] std::span<const std::string_view> model_kinds();
// Returns the kind that a `model` mapping has; empty when it has none.
[[nodiscard]] std::string_view model_kind_of(const Value& model);

// Returns the kind of a model that a file's text is: "graph", "hf" or "layers"; empty if none.
[[nodiscard]] std::string_view kind_of_model_document(const Value& document);

// Whether the value of `model.layers` is a model by its layers, a YAML file or a mapping; a number
// is the number of layers of a preset.
[[nodiscard]] bool is_layers_of_model(const Value& layers);

// Whether the word at `path` ("hardware", "training.optimizer") is short for a mapping.
[[nodiscard]] bool has_long_form(std::string_view path);
// Returns that mapping. A path as `model` is opened to find its kind. Throws UserError at the word:
// no such file, or neither a Hugging Face config nor a cost graph.
[[nodiscard]] Value long_form(std::string_view path, const Value& word);

// Whether a text names a file rather than a preset: it has a slash or such an ending.
[[nodiscard]] bool is_model_path(std::string_view text);
// Whether a value of `model.layers` names a file: it has the ending of YAML, or is a pipe.
[[nodiscard]] bool is_layers_path(std::string_view text);
// Whether a file is an ONNX model, by its name's ending or its first byte.
[[nodiscard]] bool is_onnx_file(const std::string& path);

[[nodiscard]] Value text_value(std::string text, const Location& location);
[[nodiscard]] Value mapping_value(const Location& location);
// Sets a key, at the end if it is new.
void set_entry(Value& mapping, const std::string& key, const Location& key_location, Value value);
// Returns where a key is; the location of the mapping itself when it is absent.
[[nodiscard]] Location location_of_key(const Value& mapping, std::string_view key);

}  // namespace tidemark
