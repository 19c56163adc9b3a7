// The opcodes of Python's pickles that plain containers need.
#pragma once

#include <cstdint>
#include <string>

namespace tidemark {

// Opcodes from Lib/pickletools.py.
enum class PickleOpcode : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kPushNone = 'N',
  kBinUnicode = 'X',
  kBinFloat = 'G',
  kShortBinString = 'U',
  kBinString = 'T',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kAppend = 'a',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kSetItems = 'u',
  kTuple = 't',
  kEmptyTuple = ')',
  kEmptyList = ']',
  kList = 'l',
  kEmptyDict = '}',
  kDict = 'd',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kMemoize = 0x94,
  kFrame = 0x95,
};

// Returns why an opcode that is not among them is refused.
[[nodiscard]] std::string refusal_of(PickleOpcode opcode);

}  // namespace tidemark
