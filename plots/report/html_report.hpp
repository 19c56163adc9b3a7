// The HTML report: one file that opens from disk without network.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark {

inline constexpr std::string_view kNoHtmlReport =
    "this tidemark was built without npm, so it cannot write HTML reports; install nodejs and npm, "
    "build it again, or leave the format out";

// Whether the page was built in, which takes npm when Tidemark is built.
[[nodiscard]] bool has_html_report();

struct HtmlReport {
  std::string title;
  // The facts that the page shows before a run is opened; see web/src/report.js.
  std::string summary;            // one JSON object
  std::vector<std::string> runs;  // run_columns(); empty where a point has no charts
};

// Writes the report. Throws UserError when the page was not built in.
void write_html_report(std::ostream& out, const HtmlReport& report);

}  // namespace tidemark
