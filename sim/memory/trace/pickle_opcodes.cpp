#include "sim/memory/trace/pickle_opcodes.hpp"

#include <array>
#include <string_view>

#include <fmt/format.h>

namespace tidemark {
namespace pickle_opcodes_detail {
namespace {

struct Refused {
  std::uint8_t byte;
  std::string_view name;
};
// Opcodes that import or call.
constexpr std::array kExecutes{
    Refused{'c', "GLOBAL"},     Refused{'R', "REDUCE"},        Refused{'b', "BUILD"},
    Refused{'i', "INST"},       Refused{'o', "OBJ"},           Refused{0x81, "NEWOBJ"},
    Refused{0x92, "NEWOBJ_EX"}, Refused{0x93, "STACK_GLOBAL"}, Refused{'P', "PERSID"},
    Refused{'Q', "BINPERSID"},  Refused{0x82, "EXT1"},         Refused{0x83, "EXT2"},
    Refused{0x84, "EXT4"}};
// Opcodes that no snapshot uses.
constexpr std::array kUnused{Refused{'F', "FLOAT"},
                             Refused{'I', "INT"},
                             Refused{'L', "LONG"},
                             Refused{'S', "STRING"},
                             Refused{'V', "UNICODE"},
                             Refused{'g', "GET"},
                             Refused{'p', "PUT"},
                             Refused{0x8f, "EMPTY_SET"},
                             Refused{0x90, "ADDITEMS"},
                             Refused{0x91, "FROZENSET"},
                             Refused{0x96, "BYTEARRAY8"},
                             Refused{0x97, "NEXT_BUFFER"},
                             Refused{0x98, "READONLY_BUFFER"}};

}  // namespace
}  // namespace pickle_opcodes_detail

std::string refusal_of(PickleOpcode opcode) {
  const auto byte = static_cast<std::uint8_t>(opcode);
  for (const pickle_opcodes_detail::Refused& refused : pickle_opcodes_detail::kExecutes) {
    if (refused.byte != byte) continue;
    return fmt::format(
        "opcode {} imports or calls something; a snapshot has only plain containers, "
        "and a pickle is never executed here",
        refused.name);
  }
  for (const pickle_opcodes_detail::Refused& refused : pickle_opcodes_detail::kUnused) {
    if (refused.byte == byte) {
      return fmt::format("opcode {} does not occur in a snapshot", refused.name);
    }
  }
  return fmt::format("0x{:02x} is no opcode of a pickle", byte);
}

}  // namespace tidemark
