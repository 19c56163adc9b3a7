// Builds the tree of a document from the events of a reader, and holds it to the limits.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/core/value.hpp"

namespace tidemark {

// The place of a reader in the text, both from 1.
struct Place {
  int line = 1;
  int column = 1;
};

// Builds a document from values that readers report in the order of the text; inside a mapping,
// keys and values alternate. Anchors are numbered from 1; 0 is none. Every call may throw a
// UserError.
class DocumentBuilder {
 public:
  explicit DocumentBuilder(std::string file) : file_(std::move(file)) {}

  void add_null(Place place, std::size_t anchor = 0);
  void add_scalar(Place place, std::string text, bool quoted, std::size_t anchor = 0);
  void add_alias(Place place, std::size_t anchor);
  void begin(Value::Kind kind, Place place, std::size_t anchor = 0);  // a sequence or a mapping
  void end();

  // Returns the whole document, once its last value has been added; null if there was none.
  [[nodiscard]] Value take();

  [[nodiscard]] bool inside_mapping() const;
  [[nodiscard]] bool expects_key() const;
  [[noreturn]] void fail(Place place, const std::string& problem) const;

 private:
  // A sequence or mapping whose end has not been read.
  struct Open {
    Value value;
    std::size_t anchor = 0;
    bool has_key = false;
    std::string key;
    Place key_place = {};
    std::unordered_map<std::string, int> lines;  // lines of the keys, once a mapping is large
  };
  // A value that aliases may repeat.
  struct Named {
    Value value;
    std::size_t nodes = 0;
    std::size_t text_bytes = 0;
    std::size_t height = 0;
  };

  [[nodiscard]] std::string path() const;
  [[nodiscard]] Value make(Value::Kind kind, Place place) const;
  void count_alias(Place place, const Named& named);
  void add(Place place, Value value, std::size_t anchor);
  void add_key(Place place, std::string key);
  void check_duplicate(Place place, Open& open) const;

  std::string file_;
  std::vector<Open> open_;
  Value root_;
  std::size_t nodes_ = 0;
  std::size_t alias_nodes_ = 0;
  std::size_t alias_bytes_ = 0;
  std::map<std::size_t, Named> named_;
};

}  // namespace tidemark
