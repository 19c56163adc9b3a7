#include "plots/report/html_report.hpp"

#include <string_view>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "plots/report/column_file.hpp"
#include "plots/report/page.hpp"

namespace tidemark {
namespace html_report_detail {
namespace {

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

// Writes an element in base64, which has no '<', so nothing in it ends the element.
void write_packed(std::ostream& out, std::string_view id, std::string_view bytes) {
  out << "<script type=\"text/plain\" id=\"" << id << "\">" << packed_for_page(bytes)
      << "</script>\n";
}

}  // namespace
}  // namespace html_report_detail

bool has_html_report() {
  return !page_parts().empty();
}

void write_html_report(std::ostream& out, const HtmlReport& report) {
  if (!has_html_report()) {
    throw UserError(std::string(kNoHtmlReport));
  }
  // Marks at which the page is cut to insert the title and the data.
  static constexpr std::string_view kTitle = "<!--title-->";
  static constexpr std::string_view kData = "<!--data-->";
  std::string page;
  for (const std::string_view part : page_parts())
    page += part;
  const std::size_t title = page.find(kTitle);
  const std::size_t data = page.find(kData);
  if (title == std::string::npos || data == std::string::npos || data < title) {
    throw InternalError("the report's page has no place for its title or its data");
  }
  const std::string_view view = page;
  out << view.substr(0, title) << html_report_detail::escaped(report.title)
      << view.substr(title + kTitle.size(), data - title - kTitle.size());
  html_report_detail::write_packed(out, "summary", report.summary);
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    if (!report.runs[i].empty())
      html_report_detail::write_packed(out, fmt::format("run-{}", i), report.runs[i]);
  }
  out << view.substr(data + kData.size());
}

}  // namespace tidemark
