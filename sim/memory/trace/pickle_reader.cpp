#include "sim/memory/trace/pickle_reader.hpp"

#include <fmt/format.h>

#include "sim/memory/trace/pickle_file.hpp"
#include "sim/memory/trace/pickle_opcodes.hpp"

namespace tidemark {

// A stack machine without recursion: nested containers need no stack of the host.
class PickleParser {
 public:
  explicit PickleParser(Pickle& pickle) : pickle_(pickle), bytes_(pickle.bytes_) {}
  void run();

 private:
  bool step();  // false at the end
  void read_container(PickleOpcode opcode);
  void read_number(PickleOpcode opcode);
  void read_text(PickleKind kind, std::size_t length_bytes);
  void memoize(std::uint64_t index);
  void recall(std::uint64_t index);
  void add_to_list(std::size_t first);
  void add_to_dict(std::size_t first);
  [[noreturn]] void fail(const std::string& problem) const { pickle_.fail(at_, problem); }

  std::uint64_t little_endian(std::size_t count);
  std::string_view take(std::uint64_t count);
  void push(PickleKind kind, std::int64_t payload = 0);
  void push_list(std::vector<PickleValue> items);
  void count_container();
  PickleValue pop();
  void need(std::size_t count);  // values above the last mark
  std::size_t pop_mark();

  Pickle& pickle_;
  const std::string& bytes_;
  std::size_t next_ = 0;
  std::size_t at_ = 0;  // offset of the current opcode
  std::size_t values_ = 0;
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PickleValue> memo_;
  std::vector<char> memoized_;
};

std::string_view PickleParser::take(std::uint64_t count) {
  if (count > bytes_.size() - next_) {
    fail(fmt::format("the file ends {} bytes too early", count - (bytes_.size() - next_)));
  }
  const std::string_view taken = std::string_view(bytes_).substr(next_, count);
  next_ += count;
  return taken;
}

std::uint64_t PickleParser::little_endian(std::size_t count) {
  std::uint64_t value = 0;
  const std::string_view taken = take(count);
  for (std::size_t i = count; i-- > 0;)
    value = (value << 8U) | static_cast<std::uint8_t>(taken[i]);
  return value;
}

void PickleParser::push(PickleKind kind, std::int64_t payload) {
  if (++values_ > Pickle::kMostValues) {
    fail(fmt::format("there are more than {} values", Pickle::kMostValues));
  }
  stack_.emplace_back(kind, at_, payload);
}

void PickleParser::count_container() {
  const std::size_t most = Pickle::kFreeContainers + bytes_.size() / Pickle::kContainerBytes;
  if (pickle_.lists_.size() + pickle_.dicts_.size() >= most) {
    fail(fmt::format("there are more than {} lists and dicts; no snapshot of {} bytes has so many",
                     most, bytes_.size()));
  }
}

void PickleParser::push_list(std::vector<PickleValue> items) {
  count_container();
  push(PickleKind::kList, static_cast<std::int64_t>(pickle_.lists_.size()));
  pickle_.lists_.push_back(std::move(items));
}

void PickleParser::need(std::size_t count) {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() - floor < count) fail("the stack has too few values for this opcode");
}

PickleValue PickleParser::pop() {
  need(1);
  const PickleValue value = stack_.back();
  stack_.pop_back();
  return value;
}

std::size_t PickleParser::pop_mark() {
  if (marks_.empty()) fail("there is no mark on the stack for this opcode");
  const std::size_t mark = marks_.back();
  marks_.pop_back();
  return mark;
}

void PickleParser::add_to_list(std::size_t first) {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (first <= floor || stack_[first - 1].kind() != PickleKind::kList) {
    fail("there is no list below the items");
  }
  std::vector<PickleValue>& list =
      pickle_.lists_[static_cast<std::size_t>(stack_[first - 1].payload_)];
  list.insert(list.end(), stack_.begin() + static_cast<std::ptrdiff_t>(first), stack_.end());
  stack_.resize(first);
}

void PickleParser::add_to_dict(std::size_t first) {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (first <= floor || stack_[first - 1].kind() != PickleKind::kDict) {
    fail("there is no dict below the keys");
  }
  if ((stack_.size() - first) % 2 != 0) fail("a key has no value");
  auto& dict = pickle_.dicts_[static_cast<std::size_t>(stack_[first - 1].payload_)];
  for (std::size_t i = first; i < stack_.size(); i += 2)
    dict.emplace_back(stack_[i], stack_[i + 1]);
  stack_.resize(first);
}

void PickleParser::memoize(std::uint64_t index) {
  need(1);
  // Python numbers them one by one; no file needs more places than it has values.
  if (index > values_) fail(fmt::format("place {} of the memo is out of range", index));
  if (index >= memo_.size()) {
    memo_.resize(index + 1);
    memoized_.resize(index + 1, 0);
  }
  memo_[index] = stack_.back();
  memoized_[index] = 1;
}

void PickleParser::recall(std::uint64_t index) {
  if (index >= memo_.size() || memoized_[index] == 0) {
    fail(fmt::format("place {} of the memo has not been filled", index));
  }
  stack_.push_back(memo_[index]);
  if (++values_ > Pickle::kMostValues) {
    fail(fmt::format("there are more than {} values", Pickle::kMostValues));
  }
}

void PickleParser::read_text(PickleKind kind, std::size_t length_bytes) {
  const std::uint64_t length = little_endian(length_bytes);
  const auto begin = static_cast<std::uint64_t>(next_);
  static_cast<void>(take(length));
  // Both fit into 32 bits: the file is no larger.
  push(kind, static_cast<std::int64_t>(begin << 32U | length));
}

void PickleParser::read_number(PickleOpcode opcode) {
  using enum PickleOpcode;
  switch (opcode) {
    case kBinInt:
      return push(PickleKind::kInteger, static_cast<std::int32_t>(little_endian(4)));
    case kBinInt1:
      return push(PickleKind::kInteger, static_cast<std::int64_t>(little_endian(1)));
    case kBinInt2:
      return push(PickleKind::kInteger, static_cast<std::int64_t>(little_endian(2)));
    case kBinFloat: {
      std::uint64_t bits = 0;
      for (char c : take(8))
        bits = (bits << 8U) | static_cast<std::uint8_t>(c);
      return push(PickleKind::kReal, static_cast<std::int64_t>(bits));
    }
    default: {  // LONG1, LONG4: two's complement of any length, lowest byte first
      const std::string_view digits = take(little_endian(opcode == kLong1 ? 1 : 4));
      const bool negative =
          !digits.empty() && (static_cast<std::uint8_t>(digits.back()) & 0x80U) != 0;
      const std::uint8_t fill = negative ? 0xff : 0;
      std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
      bool fits = true;
      for (std::size_t i = digits.size(); i-- > 0;) {
        const auto byte = static_cast<std::uint8_t>(digits[i]);
        if (i >= 8) {
          fits = fits && byte == fill;
        } else {
          value = (value << 8U) | byte;
        }
      }
      const auto number = static_cast<std::int64_t>(value);
      fits = fits && (number < 0) == negative;
      return push(fits ? PickleKind::kInteger : PickleKind::kHugeInteger, fits ? number : 0);
    }
  }
}

void PickleParser::read_container(PickleOpcode opcode) {
  using enum PickleOpcode;
  switch (opcode) {
    case kEmptyTuple:
    case kEmptyList:
      return push_list({});
    case kTuple1:
    case kTuple2:
    case kTuple3:
    case kTuple:
    case kList: {
      std::size_t first = 0;
      if (opcode == kTuple || opcode == kList) {
        first = pop_mark();
      } else {
        const std::size_t count = opcode == kTuple1 ? 1U : opcode == kTuple2 ? 2U : 3U;
        need(count);
        first = stack_.size() - count;
      }
      std::vector<PickleValue> items(stack_.begin() + static_cast<std::ptrdiff_t>(first),
                                     stack_.end());
      stack_.resize(first);
      return push_list(std::move(items));
    }
    case kEmptyDict:
    case kDict: {
      count_container();
      const std::size_t first = opcode == kDict ? pop_mark() : stack_.size();
      push(PickleKind::kDict, static_cast<std::int64_t>(pickle_.dicts_.size()));
      pickle_.dicts_.emplace_back();
      if (opcode == kEmptyDict) return;
      // The dict lies below its keys.
      const PickleValue dict = stack_.back();
      stack_.pop_back();
      stack_.insert(stack_.begin() + static_cast<std::ptrdiff_t>(first), dict);
      return add_to_dict(first + 1);
    }
    case kAppend:
      need(2);
      return add_to_list(stack_.size() - 1);
    case kAppends:
      return add_to_list(pop_mark());
    case kSetItem:
      need(3);
      return add_to_dict(stack_.size() - 2);
    default:
      return add_to_dict(pop_mark());
  }
}

bool PickleParser::step() {
  using enum PickleOpcode;
  at_ = next_;
  if (next_ == bytes_.size()) fail("the file ends without the opcode STOP");
  const auto opcode = static_cast<PickleOpcode>(bytes_[next_++]);
  switch (opcode) {
    case kStop:
      return false;
    case kFrame: {
      const std::uint64_t length = little_endian(8);
      if (length > bytes_.size() - next_) fail("a frame is longer than the file");
      return true;
    }
    case kMark:
      marks_.push_back(stack_.size());
      if (++values_ > Pickle::kMostValues) fail("there are too many marks");
      return true;
    case kPop:
      static_cast<void>(pop());
      return true;
    case kPopMark:
      stack_.resize(pop_mark());
      return true;
    case kDup: {
      const PickleValue value = pop();
      stack_.push_back(value);
      push(value.kind(), value.payload_);
      return true;
    }
    case kPushNone:
      push(PickleKind::kNone);
      return true;
    case kNewTrue:
    case kNewFalse:
      push(PickleKind::kBoolean, opcode == kNewTrue ? 1 : 0);
      return true;
    case kBinInt:
    case kBinInt1:
    case kBinInt2:
    case kBinFloat:
    case kLong1:
    case kLong4:
      read_number(opcode);
      return true;
    case kShortBinUnicode:
    case kShortBinString:
      read_text(PickleKind::kText, 1);
      return true;
    case kBinUnicode:
    case kBinString:
      read_text(PickleKind::kText, 4);
      return true;
    case kBinUnicode8:
      read_text(PickleKind::kText, 8);
      return true;
    case kShortBinBytes:
      read_text(PickleKind::kBytes, 1);
      return true;
    case kBinBytes:
      read_text(PickleKind::kBytes, 4);
      return true;
    case kBinBytes8:
      read_text(PickleKind::kBytes, 8);
      return true;
    case kBinPut:
      memoize(little_endian(1));
      return true;
    case kLongBinPut:
      memoize(little_endian(4));
      return true;
    case kMemoize:
      memoize(memo_.size());
      return true;
    case kBinGet:
      recall(little_endian(1));
      return true;
    case kLongBinGet:
      recall(little_endian(4));
      return true;
    case kEmptyTuple:
    case kEmptyList:
    case kTuple:
    case kTuple1:
    case kTuple2:
    case kTuple3:
    case kList:
    case kEmptyDict:
    case kDict:
    case kAppend:
    case kAppends:
    case kSetItem:
    case kSetItems:
      read_container(opcode);
      return true;
    default:
      fail(refusal_of(opcode));
  }
}

void PickleParser::run() {
  constexpr int kOldest = 2;
  constexpr int kNewest = 5;
  if (bytes_.empty() || static_cast<PickleOpcode>(bytes_[0]) != PickleOpcode::kProto) {
    fail("is no pickle of protocol 2 or newer: it does not begin with the opcode PROTO");
  }
  ++next_;
  const std::uint64_t protocol = little_endian(1);
  if (protocol < kOldest || protocol > kNewest) {
    fail(fmt::format("protocol {} is not one of {} to {}", protocol, kOldest, kNewest));
  }
  while (step()) {
  }
  if (stack_.size() != 1 || !marks_.empty()) {
    fail(fmt::format("the pickle ends with {} values on the stack instead of one", stack_.size()));
  }
  pickle_.top_ = stack_.back();
}

Pickle::Pickle(const std::string& path)
    : path_(path),
      bytes_(unpacked_file(path, {.begins_with = static_cast<char>(PickleOpcode::kProto),
                                  .most = kLargestFile,
                                  .free = kFreeBytes,
                                  .for_each_packed = kMostUnpacked})) {
  PickleParser(*this).run();
}

}  // namespace tidemark
