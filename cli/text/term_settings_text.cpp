#include "cli/text/term_settings_text.hpp"

#include <fmt/format.h>

#include "cli/text/wording.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "scenarios/studies/term_settings.hpp"

namespace tidemark {
namespace term_settings_text_detail {
namespace {

// Returns the arguments of the Trainer, or else, or where these are several, the line of PyTorch;
// --json has all.
const std::string& elsewhere(const TermSetting& setting) {
  const bool one_line =
      !setting.hugging_face.empty() && setting.hugging_face.find('\n') == std::string::npos;
  return one_line ? setting.hugging_face : setting.pytorch;
}

}  // namespace
}  // namespace term_settings_text_detail

std::string explain_more_gpus(const MoreGpus& more, Bytes peak, bool colour, std::size_t width) {
  const std::string heading = fmt::format("On twice the GPUs ({})", more.count);
  if (more.terms.empty()) {
    return '\n' + bold(heading, colour) + "\n  no term at the peak would differ\n";
  }
  const BytesColumn unit(peak);
  Table table({{"term"}, {"here", Align::kRight}, {"there", Align::kRight}}, 2);
  for (const SharedTerm& term : more.terms) {
    table.add_row({{std::string(style_of(term.role).label)},
                   {unit.text(term.here)},
                   {unit.text(term.there)}});
  }
  for (const SharedTerm& term : more.unchanged) {
    if (term.here.count < peak.count / 1000) continue;  // --json has them
    table.add_row({{std::string(style_of(term.role).label)}, {unit.text(term.here)}, {"the same"}});
  }
  table.add_row(
      {{"peak", -1, true}, {unit.text(peak), -1, true}, {unit.text(more.peak), -1, true}});
  return '\n' + bold(heading, colour) + '\n' + table.text(colour, width);
}

std::string explain_settings(const DetailedPoint& point, bool colour, std::size_t width) {
  const std::vector<TermSetting> settings = term_settings(point);
  if (settings.empty()) return {};
  Table table({{"term"}, {"here"}, {"for Hugging Face, or in PyTorch"}}, 2);
  const TermSetting* previous = nullptr;
  for (const TermSetting& setting : settings) {
    const bool same = previous != nullptr && previous->role == setting.role;
    table.add_row({{same ? "" : std::string(style_of(setting.role).label)},
                   {setting.change},
                   {term_settings_text_detail::elsewhere(setting)}});
    previous = &setting;
  }
  return '\n' + bold("Settings that change these terms", colour) + '\n' + table.text(colour, width);
}

}  // namespace tidemark
