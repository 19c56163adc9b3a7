#include "plots/pickle_writer.hpp"

#include <bit>
#include <limits>

namespace tidemark {
namespace pickle_writer_detail {
namespace {

// Opcodes of Python's Lib/pickletools.py.
constexpr std::uint8_t kProto = 0x80;
constexpr std::uint8_t kStop = '.';
constexpr std::uint8_t kMark = '(';
constexpr std::uint8_t kTrue = 0x88;
constexpr std::uint8_t kFalse = 0x89;
constexpr std::uint8_t kBinInt = 'J';    // 4 bytes, signed
constexpr std::uint8_t kBinInt1 = 'K';   // 1 byte
constexpr std::uint8_t kBinInt2 = 'M';   // 2 bytes
constexpr std::uint8_t kLong1 = 0x8a;    // a length of 1 byte, then two's complement
constexpr std::uint8_t kBinFloat = 'G';  // 8 bytes, big-endian
constexpr std::uint8_t kBinUnicode = 'X';
constexpr std::uint8_t kEmptyList = ']';
constexpr std::uint8_t kAppends = 'e';
constexpr std::uint8_t kEmptyDict = '}';
constexpr std::uint8_t kSetItems = 'u';
constexpr std::uint8_t kTuple2 = 0x86;
constexpr std::uint8_t kBinPut = 'q';
constexpr std::uint8_t kBinGet = 'h';

constexpr int kBatch = 1000;  // as in CPython; MemoryViz.js spreads a batch over the call stack
constexpr std::size_t kMemoSize = 256;

}  // namespace
}  // namespace pickle_writer_detail

PickleWriter::PickleWriter(std::ostream& out) : out_(out) {
  put(pickle_writer_detail::kProto);
  put(2);
}

void PickleWriter::put_little_endian(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i)
    put(static_cast<std::uint8_t>(value >> (8 * i)));
}

void PickleWriter::boolean(bool value) {
  put(value ? pickle_writer_detail::kTrue : pickle_writer_detail::kFalse);
}

void PickleWriter::integer(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  if (value >= 0 && value <= std::numeric_limits<std::uint8_t>::max()) {
    put(pickle_writer_detail::kBinInt1);
    put_little_endian(bits, 1);
  } else if (value >= 0 && value <= std::numeric_limits<std::uint16_t>::max()) {
    put(pickle_writer_detail::kBinInt2);
    put_little_endian(bits, 2);
  } else if (value >= std::numeric_limits<std::int32_t>::min() &&
             value <= std::numeric_limits<std::int32_t>::max()) {
    put(pickle_writer_detail::kBinInt);
    put_little_endian(bits, 4);
  } else {
    put(pickle_writer_detail::kLong1);
    put(8);
    put_little_endian(bits, 8);
  }
}

void PickleWriter::real(double value) {
  put(pickle_writer_detail::kBinFloat);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int i = 7; i >= 0; --i)
    put(static_cast<std::uint8_t>(bits >> (8 * i)));
}

void PickleWriter::text(std::string_view value) {
  put(pickle_writer_detail::kBinUnicode);
  put_little_endian(value.size(), 4);
  out_.write(value.data(), static_cast<std::streamsize>(value.size()));
}

// APPENDS takes the items above the mark and adds them to the list below.
void PickleWriter::begin_list() {
  put(pickle_writer_detail::kEmptyList);
  put(pickle_writer_detail::kMark);
  batches_.push_back(0);
}

void PickleWriter::begin_in_batch() {
  if (++batches_.back() <= pickle_writer_detail::kBatch) return;
  put(pickle_writer_detail::kAppends);
  put(pickle_writer_detail::kMark);
  batches_.back() = 1;
}

void PickleWriter::end_list() {
  put(pickle_writer_detail::kAppends);
  batches_.pop_back();
}

// SETITEMS takes keys and values from above the mark.
void PickleWriter::begin_dict() {
  put(pickle_writer_detail::kEmptyDict);
  put(pickle_writer_detail::kMark);
}

void PickleWriter::word(std::string_view value) {
  const auto known = words_.find(std::string(value));
  if (known != words_.end()) {
    put(pickle_writer_detail::kBinGet);
    put(known->second);
    return;
  }
  text(value);
  if (words_.size() == pickle_writer_detail::kMemoSize) return;
  const auto place = static_cast<std::uint8_t>(words_.size());
  words_.emplace(value, place);
  put(pickle_writer_detail::kBinPut);
  put(place);
}

void PickleWriter::end_dict() {
  put(pickle_writer_detail::kSetItems);
}

void PickleWriter::pair(std::int64_t first, std::int64_t second) {
  integer(first);
  integer(second);
  put(pickle_writer_detail::kTuple2);
}

void PickleWriter::finish() {
  put(pickle_writer_detail::kStop);
}

}  // namespace tidemark
