// Writes Python's pickle, protocol 2, for plain containers: only the opcodes that PyTorch's
// memory_viz page reads.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tidemark {

// Values are written one after the other; containers are opened and closed around theirs. A list
// is cut into batches, since readers pass a batch on as the arguments of one call.
class PickleWriter {
 public:
  explicit PickleWriter(std::ostream& out);

  void boolean(bool value);
  void integer(std::int64_t value);
  void real(double value);
  void text(std::string_view value);  // UTF-8
  // Writes a text that is repeated: the first time in full, later by its place in the memo.
  void word(std::string_view value);
  void begin_list();
  void begin_item() { begin_in_batch(); }  // called before each item of a list
  void end_list();
  void begin_dict();
  void key(std::string_view name) { word(name); }  // called before each value of a dict
  void end_dict();
  void pair(std::int64_t first, std::int64_t second);  // writes a tuple
  void finish();

 private:
  void begin_in_batch();
  void put(std::uint8_t byte) { out_.put(static_cast<char>(byte)); }
  void put_little_endian(std::uint64_t value, int bytes);

  std::ostream& out_;
  std::vector<int> batches_;  // items in the open batch, of every open list
  std::unordered_map<std::string, std::uint8_t> words_;  // places of texts in the memo
};

}  // namespace tidemark
