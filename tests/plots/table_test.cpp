#include "plots/table.hpp"

#include <sstream>
#include <string>

#include <doctest/doctest.h>

namespace tidemark::table_test {
namespace {

TEST_SUITE("unit") {
  TEST_CASE("a table aligns its columns and leaves no trailing blanks") {
    Table table({{"name"}, {"bytes", Align::kRight}, {"note"}});
    table.add_row({{"a"}, {"1"}, {"x"}});
    table.add_row({{"long"}, {"1,024"}});
    CHECK(table.text() ==
          "name  bytes  note\n"
          "a         1  x\n"
          "long  1,024\n");
  }

  TEST_CASE("a table leaves out columns that are empty in every row") {
    Table table({{"a"}, {"b"}, {"c"}});
    table.add_row({{"1"}, {""}, {"3"}});
    CHECK(table.text() == "a  c\n1  3\n");
  }

  TEST_CASE("a table wraps its last column where it is too wide, below itself") {
    Table table({{"k"}, {"reason"}});
    table.add_row({{"1"}, {"no room for 50 MiB in the forward pass"}});
    CHECK(table.text(false, 30) ==
          "k  reason\n"
          "1  no room for 50 MiB in the\n"
          "   forward pass\n");
    CHECK(table.text(false, 0) ==
          "k  reason\n"
          "1  no room for 50 MiB in the forward pass\n");
  }

  TEST_CASE("a table that is too wide loses its spare columns first") {
    Table table({{"k"}, {"kept", Align::kRight}, {"spare", Align::kRight, 1}, {"last"}});
    table.add_row({{"1"}, {"2"}, {"3"}, {"4"}});
    CHECK(table.text(false, 80) == "k  kept  spare  last\n1     2      3  4\n");
    CHECK(table.text(false, 14) == "k  kept  last\n1     2  4\n");
  }

  TEST_CASE("a table that is too wide wraps its names, and says below a row what it has to say") {
    Table table({{"policies"}, {"bytes", Align::kRight}, {""}});
    table.add_row({{"checkpoint_every(period 1) + offload_activations"}, {"1"}, {""}});
    table.add_row({{"no policy"}, {"20"}, {"no room for 50 MiB in the forward pass"}});
    CHECK(table.text(false, 36) ==
          "policies                      bytes\n"
          "checkpoint_every(period 1) +      1\n"
          "offload_activations\n"
          "no policy                        20\n"
          "    no room for 50 MiB in the\n"
          "    forward pass\n");
    for (std::size_t width = 36; width < 110; ++width) {
      std::istringstream lines(table.text(false, width));
      for (std::string line; std::getline(lines, line);)
        CHECK(display_width(line) <= width);
    }
  }

  TEST_CASE("colour does not change the alignment of a table") {
    Table table({{"name"}, {"n", Align::kRight}});
    table.add_row({{"yes", 71}, {"1"}});
    table.add_row({{"no", 167, true}, {"12"}});
    const std::string text = table.text(true);
    CHECK(text.find("\x1b[38;5;71m") != std::string::npos);
    CHECK(display_width("\x1b[1mfür\x1b[0m") == 3);
    CHECK(table.text(false) == "name   n\nyes    1\nno    12\n");
  }

  TEST_CASE("only lines that are too long are wrapped, further in") {
    CHECK(wrap_lines("a\n  b c d e\n\nf", 7) == "a\n  b c\n    d e\n\nf");
    CHECK(wrap_lines("a b c d\n", 0) == "a b c d\n");
  }

  TEST_CASE("in a help text the rest of a meaning stands below where it begins") {
    CHECK(wrap_meanings("Options:\n  --name N   the number of lines in it\n  --other\n", 34) ==
          "Options:\n  --name N   the number of lines\n             in it\n  --other\n");
    // No room for a second column, none there, or nothing to break.
    CHECK(wrap_meanings("  --name N   the number of lines", 24) ==
          "  --name N   the\n    number of lines");
    CHECK(wrap_meanings("a b c\n  d", 4) == "a\n  b\n  c\n  d");
    CHECK(wrap_meanings("--name   long meaning that is whole", 0) ==
          "--name   long meaning that is whole");
  }

  TEST_CASE("words longer than the width stay whole") {
    CHECK(wrap("a verylongword b", 5) == std::vector<std::string>{"a", "verylongword", "b"});
  }
}

}  // namespace
}  // namespace tidemark::table_test
