// Reads values out of a document with errors that say where, what and what to write instead:
//   scenario.yaml:7:12: training.micro_batch: expected an integer of at least 1, found 'many'
//   scenario.yaml:9:3: training.micro_bacth: unknown key; did you mean 'micro_batch'?
//
//   Decoder d(document);
//   const Decoder training = d.optional_child("training");
//   int batch = training.optional<std::int64_t>("micro_batch", 1, at_least(1));
//   d.finish();   // a key that was never read is an error
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/core/document.hpp"
#include "graph/core/range.hpp"
#include "graph/core/scalars.hpp"
#include "graph/core/units.hpp"
#include "graph/core/words.hpp"

namespace tidemark {

// A parameter as `tidemark describe` prints it.
struct ParameterNote {
  std::string name;
  std::string type;           // "integer", "number", "true or false", "text", "word", "size", ...
  std::string default_value;  // empty when required; "none" when it may be left out
  std::string range;          // ">= 1", "0 to 1", "math | flash"; empty when free
  Range limits;               // of a number, and of the numbers of a list
};

// A view of one value of a document together with its path. Cheap to copy; the document must live
// longer. Copies and children share the record of which keys have been read.
class Decoder {
 public:
  // An empty mapping with no location: every optional key takes its default. Used to construct
  // policies without parameters and, with `notes`, to collect what decode() reads.
  Decoder();
  explicit Decoder(const Value& value, std::string path = {});
  // Records each parameter that is read into `notes`; missing required values are replaced by the
  // lowest legal one. For `tidemark describe`.
  static Decoder describing(std::vector<ParameterNote>& notes);

  [[nodiscard]] const Value& value() const;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] Location location() const;
  [[nodiscard]] bool has(std::string_view key) const;  // present and not null; counts as read

  // Scalars of type bool, FlagOrNumber, int, std::int64_t, double, std::string, Bytes, Duration,
  // BytesPerSecond, FlopsPerSecond. Numbers are checked against `range`. Integers: decimal only
  // ("010" is an error, since YAML 1.1 reads it as eight), no fraction and no exponent ("8.0" and
  // "2e3" are errors); digits may be grouped: 1_000_000. A key whose value is null counts as
  // absent, except for `required`.
  template <class T>
  [[nodiscard]] T required(std::string_view key, Range range = {}) const;
  template <class T>
  [[nodiscard]] T optional(std::string_view key, T fallback, Range range = {}) const;
  template <class T>
  [[nodiscard]] std::optional<T> maybe(std::string_view key, Range range = {}) const;
  template <class T>
  [[nodiscard]] std::vector<T> list(std::string_view key,
                                    Range range = {}) const;  // empty when absent
  template <class T>
  [[nodiscard]] std::vector<T> optional_list(std::string_view key, std::vector<T> fallback,
                                             Range range = {}) const;
  // Returns this value itself as a T.
  template <class T>
  [[nodiscard]] T as(Range range = {}) const;

  // Returns one of the given words; the error lists them and suggests the nearest.
  [[nodiscard]] std::string required_word(std::string_view key,
                                          std::span<const std::string_view> words) const;
  // Returns one of the words; nothing where the key is left out.
  [[nodiscard]] std::optional<std::string> maybe_word(
      std::string_view key, std::span<const std::string_view> words) const;
  // Says of a key that is read in some settings only what `describe` prints; reads nothing.
  void mention(std::string_view key, std::string_view type, std::string_view range) const;
  [[nodiscard]] std::string optional_word(std::string_view key,
                                          std::span<const std::string_view> words,
                                          std::string_view fallback) const;

  // A missing optional child reads as an empty mapping.
  [[nodiscard]] Decoder required_child(std::string_view key) const;
  [[nodiscard]] Decoder optional_child(std::string_view key) const;
  [[nodiscard]] std::vector<Decoder> items() const;  // items of a sequence
  [[nodiscard]] std::vector<std::pair<std::string, Decoder>> entries()
      const;  // entries of a mapping; all count as read

  // Throws for the first key of this mapping that was never read, with the nearest known key.
  void finish() const;

  // Throws a UserError at this value (or at `key` of it).
  [[noreturn]] void fail(const std::string& problem) const;
  [[noreturn]] void fail_at(std::string_view key, const std::string& problem) const;

 private:
  struct Record;  // keys that were read, kept beside the tree of decoders

  [[nodiscard]] Decoder child(std::string_view key, const Value* value) const;
  [[nodiscard]] const Value* ask(std::string_view key) const;
  [[nodiscard]] std::string path_of(std::string_view key) const;
  [[nodiscard]] const Value& require(std::string_view key, std::string_view expected) const;
  template <class T>
  [[nodiscard]] T read(const Value& value, const Range& range, const std::string& path) const;
  [[nodiscard]] std::string read_word(const Value& value, std::span<const std::string_view> words,
                                      const std::string& path) const;
  void note(std::string_view key, std::string type, std::string default_value, std::string range,
            Range limits = {}) const;

  const Value* value_ = nullptr;    // null when absent
  const Value* nearest_ = nullptr;  // the closest enclosing value that is there, for locations
  std::string path_;
  std::vector<ParameterNote>* notes_ = nullptr;
  std::shared_ptr<Record> record_;
};

}  // namespace tidemark
