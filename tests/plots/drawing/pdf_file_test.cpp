// PDFs that readers can open: every object is where the table says, texts are where they should be.
#include "plots/drawing/pdf_file.hpp"

#include <fstream>
#include <regex>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include "plots/drawing/helvetica.hpp"
#include "plots/drawing/svg_file.hpp"
#include "tests/cli/command_runner.hpp"
#include "tests/support/programs.hpp"

namespace tidemark::pdf_file_test {
namespace {

Drawing small_drawing() {
  Drawing drawing{.width = 200,
                  .height = 100,
                  .title = "a (title) \\ \xc3\xa9",
                  .description = "how it was made",
                  .clip = {10, 10, 190, 90},
                  .hatchings = {{0xff0000, Hatch::kRising}, {0x0000ff, Hatch::kDots}}};
  drawing.items.emplace_back(DrawnPath{{{PathStep::Kind::kMove, 0, 0},
                                        {PathStep::Kind::kLine, 50, 0},
                                        {PathStep::Kind::kLine, 50, 50},
                                        {PathStep::Kind::kClose}},
                                       {.hatching = 1},
                                       true});
  drawing.items.emplace_back(DrawnCircle{100, 50, 4, {.fill = 0x00ff00, .stroke = 0x000000}});
  drawing.items.emplace_back(DrawnText{
      .x = 100, .y = 50, .words = "AA", .font = 10, .anchor = TextAnchor::kEnd, .halo = true});
  return drawing;
}

std::string pdf_of(const Drawing& drawing) {
  std::ostringstream out;
  write_pdf(out, drawing);
  return out.str();
}

TEST_SUITE("unit") {
  TEST_CASE("the table of a PDF has the place of every object, and streams their lengths") {
    const std::string pdf = pdf_of(small_drawing());
    CHECK(pdf.starts_with("%PDF-1.4\n"));
    CHECK(pdf.ends_with("%%EOF\n"));
    const std::size_t start = pdf.rfind("startxref\n");
    REQUIRE(start != std::string::npos);
    const auto table = static_cast<std::size_t>(std::stoul(pdf.substr(start + 10)));
    REQUIRE(pdf.substr(table, 8) == "xref\n0 1");  // 7 objects, 2 hatchings and the free entry
    std::istringstream lines(pdf.substr(table));
    std::string line;
    std::getline(lines, line);
    std::getline(lines, line);
    CHECK(line == "0 10");
    std::getline(lines, line);
    for (int object = 1; object < 10; ++object) {
      std::getline(lines, line);
      CHECK(line.size() == 19);  // and the line break: 20 bytes each
      const auto at = static_cast<std::size_t>(std::stoul(line.substr(0, 10)));
      const std::string begin = std::to_string(object) + " 0 obj\n";
      CHECK(pdf.substr(at, begin.size()) == begin);
    }
    static const std::regex kStream(R"re(/Length (\d+) >>\nstream\n)re");
    int streams = 0;
    for (auto at = std::sregex_iterator(pdf.begin(), pdf.end(), kStream);
         at != std::sregex_iterator(); ++at, ++streams) {
      const auto end = static_cast<std::size_t>(at->position() + at->length()) +
                       static_cast<std::size_t>(std::stoul((*at)[1]));
      CHECK(pdf.substr(end, 10) == "\nendstream");
    }
    CHECK(streams == 3);  // the page and two hatchings
  }

  TEST_CASE("a PDF has a drawing's size, texts and inks") {
    const std::string pdf = pdf_of(small_drawing());
    CHECK(pdf.find("/MediaBox [0 0 150.00 75.00]") != std::string::npos);  // 3/4 point a pixel
    CHECK(pdf.find("/Title (a \\(title\\) \\\\ \\351)") != std::string::npos);
    CHECK(pdf.find("/Subject (how it was made)") != std::string::npos);
    CHECK(pdf.find("/Pattern cs /H1 scn") != std::string::npos);
    // Two letters of 0.667 end at 100: they begin at 100 - 2 * 6.67.
    CHECK(pdf.find("0 Tr 1 0 0 -1 86.66 50.00 Tm (AA) Tj") != std::string::npos);
    CHECK(pdf.find("1 Tr 1 0 0 -1 86.66 50.00 Tm (AA) Tj") != std::string::npos);  // its halo
    CHECK(pdf_of(small_drawing()) == pdf);
  }

  TEST_CASE("texts are coded as Helvetica has them") {
    CHECK(win_ansi("a\xc3\x97"
                   "b \xe2\x80\x93 \xe4\xb8\xad\xff") ==
          "a\xd7"
          "b \x96 ??");
    CHECK(helvetica_width("") == 0);
    CHECK(helvetica_width("il") == doctest::Approx(0.444));
    CHECK(helvetica_width("W") == doctest::Approx(0.944));
  }

  TEST_CASE("a reader of PDF finds the texts") {
    const std::string reader = test::program_on_path("pdftotext");
    if (reader.empty()) {
      MESSAGE("skipped: needs pdftotext");
      return;
    }
    const testing::Workspace work;
    work.write("a.pdf", pdf_of(small_drawing()));
    const test::ProgramOutput text =
        test::output_of("'" + reader + "' '" + (work.folder() / "a.pdf").string() + "' - 2>&1");
    CHECK(text.status == 0);
    CHECK(text.text.find("AA") != std::string::npos);
    CHECK(text.text.find("rror") == std::string::npos);
  }

  TEST_CASE("an SVG takes one number for a step along an axis") {
    std::ostringstream out;
    write_svg(out, small_drawing());
    CHECK(out.str().find("d=\"M0.0 0.0H50.0V50.0Z\" fill=\"url(#a1)\"") != std::string::npos);
  }
}

}  // namespace
}  // namespace tidemark::pdf_file_test
