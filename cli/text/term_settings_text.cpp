#include "cli/text/term_settings_text.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cli/text/wording.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "scenarios/studies/term_settings.hpp"

namespace tidemark {
namespace term_settings_text_detail {
namespace {

// Returns the arguments of the Trainer, or else, or where these are several, the first line of
// PyTorch's; --json has all.
std::string elsewhere(const TermSetting& setting) {
  const bool one_line =
      !setting.hugging_face.empty() && setting.hugging_face.find('\n') == std::string::npos;
  if (one_line) return setting.hugging_face;
  const std::size_t end = setting.pytorch.find('\n');
  return setting.pytorch.substr(0, end) + (end == std::string::npos ? "" : " ...");
}

}  // namespace
}  // namespace term_settings_text_detail

std::string explain_more_gpus(const MoreGpus& more, Bytes peak, bool colour, std::size_t width) {
  const std::string heading = fmt::format("On twice the GPUs ({})", more.count);
  if (more.terms.empty() && more.unchanged.empty()) return {};
  const BytesColumn unit(peak);
  Table table({{"term"}, {"here", Align::kRight}, {"there", Align::kRight}}, 2);
  // Terms that would read 0.00 stay with --json.
  const auto is_shown = [&](const SharedTerm& term) {
    return std::max(term.here, term.there).count >= peak.count / 1000;
  };
  for (const SharedTerm& term : more.terms) {
    if (!is_shown(term)) continue;
    table.add_row({{std::string(style_of(term.role).label)},
                   {unit.text(term.here)},
                   {unit.text(term.there)}});
  }
  for (const SharedTerm& term : more.unchanged) {
    if (!is_shown(term)) continue;
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
