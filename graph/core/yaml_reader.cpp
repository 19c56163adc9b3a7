#include "graph/core/yaml_reader.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

namespace tidemark {
namespace yaml_reader_detail {
namespace {

constexpr std::string_view kCoreTag = "tag:yaml.org,2002:";

// yaml-cpp's scanner is slow (microseconds each) on brackets that it reads ahead of its parser.
constexpr int kMaxOpenBrackets = 10'000;

Place place_of(const YAML::Mark& mark) {
  return {mark.line + 1, mark.column + 1};
}

// Turns yaml-cpp's events into the builder's, and refuses what yaml-cpp lets pass.
class EventReader : public YAML::EventHandler {
 public:
  EventReader(std::string_view text, DocumentBuilder& builder) : text_(text), builder_(builder) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 1) return;
    const bool marked = at(mark).substr(0, 3) == "---";
    builder_.fail(place_of(mark), marked ? "a second document starts here; write one per file"
                                         : "there is more text after the end of the document; "
                                           "is the indentation right?");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const std::string_view rest = at(mark);
    if (builder_.inside_mapping() && !builder_.expects_key()) {
      check_colon(mark);
      // yaml-cpp places the value of "a:" at whatever follows, maybe lines below.
      const bool written = rest.starts_with('~') || rest.starts_with('n') || rest.starts_with('N');
      builder_.add_null(place_of(written && mark.line == key_.mark.line ? mark : key_.mark),
                        anchor);
      return;
    }
    if (!builder_.expects_key() && rest.starts_with(',')) {
      builder_.fail(place_of(mark), "an item is missing before ','");
    }
    builder_.add_null(place_of(mark), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    builder_.add_alias(place_of(mark), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    bool is_text = tag == "!" || tag == "?";
    bool is_quoted = tag == "!";
    for (const std::string_view name : {"str", "int", "float", "bool"}) {
      if (tag != std::string(kCoreTag) + std::string(name)) continue;
      is_text = true;
      is_quoted = name == "str";
    }
    if (!is_text) refuse_tag(mark, tag, "a text or a number");
    if (builder_.expects_key()) key_ = {mark, value};
    builder_.add_scalar(place_of(mark), value, is_quoted, anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    if (tag != "?" && tag != "!" && tag != std::string(kCoreTag) + "seq") {
      refuse_tag(mark, tag, "a list");
    }
    check_closed(mark);
    builder_.begin(Value::Kind::kSequence, place_of(mark), anchor);
  }
  void OnSequenceEnd() override { builder_.end(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    if (tag != "?" && tag != "!" && tag != std::string(kCoreTag) + "map") {
      refuse_tag(mark, tag, "a mapping");
    }
    check_closed(mark);
    mapping_ = mark;
    builder_.begin(Value::Kind::kMapping, place_of(mark), anchor);
  }
  void OnMapEnd() override { builder_.end(); }

 private:
  struct Key {
    YAML::Mark mark;
    std::string text;
  };

  [[nodiscard]] std::string_view at(const YAML::Mark& mark) const {
    const std::size_t offset = mark.pos < 0 ? 0 : static_cast<std::size_t>(mark.pos);
    return offset < text_.size() ? text_.substr(offset) : std::string_view();
  }

  [[noreturn]] void refuse_tag(const YAML::Mark& mark, const std::string& tag,
                               std::string_view what) const {
    std::string shown = tag;
    if (tag.starts_with(kCoreTag)) shown = "!!" + tag.substr(kCoreTag.size());
    builder_.fail(place_of(mark), fmt::format("the tag {} is not supported on {}; leave it out",
                                              tidemark::quoted_excerpt(shown), what));
  }

  // yaml-cpp reports a bracket that is never closed as a key.
  void check_closed(const YAML::Mark& mark) const {
    if (!builder_.expects_key()) return;
    const std::string_view rest = at(mark);
    if (rest.empty() || (rest.front() != '[' && rest.front() != '{')) return;
    int open = 0;
    for (const char c : rest) {
      if (c == '[' || c == '{') ++open;
      if (c == ']' || c == '}') --open;
      if (open == 0) return;
    }
    builder_.fail(place_of(mark), "this bracket is not closed before the end of the file");
  }

  // "{a}", "{a:1}" and a line "a" among "b: 2" are mappings with a null value to yaml-cpp; only
  // "a:" is meant as one.
  void check_colon(const YAML::Mark& mark) const {
    std::string_view rest = at(key_.mark);
    const char first = rest.empty() ? '\0' : rest.front();
    if (first == '"' || first == '\'') {
      rest.remove_prefix(1);
      while (!rest.empty() && rest.front() != first) {
        rest.remove_prefix(first == '"' && rest.front() == '\\' && rest.size() > 1 ? 2 : 1);
        // '' is a quote inside single quotes.
        if (first == '\'' && rest.starts_with("''")) rest.remove_prefix(2);
      }
      if (!rest.empty()) rest.remove_prefix(1);
    } else if (rest.starts_with(key_.text)) {
      rest.remove_prefix(key_.text.size());
    } else {
      return;  // a key with a tag, an anchor or an alias
    }
    const std::size_t next = rest.find_first_not_of(" \t");
    if (next != std::string_view::npos && rest[next] == ':') return;
    // Only an unclosed list makes a mapping of an item without a colon.
    if (mapping_.pos == key_.mark.pos) {
      builder_.fail(place_of(key_.mark), "expected ',' or ']' in the list that '[' opens");
    }
    const bool glued = first != '"' && first != '\'' && key_.text.find(':') != std::string::npos;
    builder_.fail(place_of(mark.line == key_.mark.line ? key_.mark : mark),
                  glued ? "expected ': ' after the key; a blank must follow the colon"
                        : "expected ':' after the key");
  }

  std::string_view text_;
  DocumentBuilder& builder_;
  int documents_ = 0;
  Key key_;             // the last one
  YAML::Mark mapping_;  // the start of the last one
};

// Translates yaml-cpp's messages for somebody who writes a file.
std::string explain(const std::string& message) {
  static constexpr std::array<std::array<std::string_view, 2>, 18> kExplained{{
      {"end of map not found",
       "this line does not belong to the mapping above; is the indentation "
       "right?"},
      {"end of sequence not found",
       "this line does not belong to the list above; is the "
       "indentation right?"},
      {"end of map flow not found", "expected ',' or '}' in the mapping that '{' opens"},
      {"end of sequence flow not found", "expected ',' or ']' in the list that '[' opens"},
      {"illegal map value",
       "a ': ' may not stand here; is the indentation right, or a quote "
       "missing?"},
      {"illegal map key", "a key may not start here; is the indentation right?"},
      {"illegal block entry", "a list item ('- ') may not start here; put it on its own line"},
      {"illegal flow end", "this bracket closes nothing"},
      {"illegal EOF in scalar", "a quoted text is not closed before the end of the file"},
      {"illegal tab when looking for indentation", "indent with blanks, not tabs"},
      {"illegal document indicator in scalar", "a quoted text is not closed before '---' or '...'"},
      {"unexpected character in block scalar",
       "only an indentation digit, '+' or '-' may follow "
       "'|' or '>'"},
      {"unknown token", "a text may not start with this character; quote it"},
      {"the referenced anchor is not defined",
       "no anchor (&) of this name stands before this "
       "alias (*)"},
      {"alias not found after *", "expected a name after '*'; quote a text that starts with '*'"},
      {"anchor not found after &", "expected a name after '&'; quote a text that starts with '&'"},
      {"illegal character found while scanning alias",
       "an alias (*) may not contain this "
       "character; quote the text"},
      {"illegal character found while scanning anchor",
       "an anchor (&) may not contain this "
       "character; quote the text"},
  }};
  for (const auto& [theirs, ours] : kExplained) {
    if (message == theirs) return std::string(ours);
  }
  constexpr std::string_view kEscape = "unknown escape character: ";
  if (message.starts_with(kEscape)) {
    return fmt::format("unknown escape {} in a text in double quotes",
                       tidemark::quoted_excerpt('\\' + message.substr(kEscape.size())));
  }
  if (message.starts_with("invalid unicode: ")) return "this escape stands for no character";
  return excerpt("not YAML: " + message);
}

// True if the blanks and dashes that line `line` (from 1) starts with contain a tab.
bool indented_with_tab(std::string_view text, int line) {
  std::size_t start = 0;
  for (int i = 1; i < line && start != std::string_view::npos; ++i) {
    start = text.find('\n', start);
    if (start != std::string_view::npos) ++start;
  }
  if (start == std::string_view::npos) return false;
  const std::size_t end = text.find_first_not_of(" \t-", start);
  return text.substr(start, end - start).find('\t') != std::string_view::npos;
}

// Refuses texts that are all opening brackets before yaml-cpp reads them. Brackets in texts and
// comments count too; no real file has this many left open.
void check_brackets(std::string_view text, const DocumentBuilder& builder) {
  int open = 0;
  int line = 1;
  std::size_t line_start = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\n') {
      ++line;
      line_start = at + 1;
    } else if (c == '[' || c == '{') {
      if (++open <= kMaxOpenBrackets) continue;
      builder.fail({line, static_cast<int>(at - line_start) + 1},
                   fmt::format("nested more than {} levels deep: {} brackets are open here, those "
                               "of texts and comments among them",
                               kMaxDepth, open));
    } else if ((c == ']' || c == '}') && open > 0) {
      --open;
    }
  }
}

void check_line_ends(std::string_view text, const DocumentBuilder& builder) {
  for (std::size_t at = text.find('\r'); at != std::string_view::npos;
       at = text.find('\r', at + 1)) {
    if (at + 1 < text.size() && text[at + 1] == '\n') continue;
    builder.fail({1, 1}, "the lines end in CR alone; save the file with LF or CRLF line ends");
  }
}

// Directives stand before the document. yaml-cpp ignores those it does not know.
void check_directives(std::string_view text, const DocumentBuilder& builder) {
  for (Place place; !text.empty(); ++place.line) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first != std::string_view::npos && line[first] != '#' && line[0] != '%') return;
    if (line.starts_with('%') && !line.starts_with("%YAML ") && !line.starts_with("%TAG ")) {
      builder.fail(place, "a text may not start with '%'; quote it");
    }
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
}

}  // namespace
}  // namespace yaml_reader_detail

void read_yaml(std::string_view text, DocumentBuilder& builder) {
  yaml_reader_detail::check_line_ends(text, builder);
  yaml_reader_detail::check_brackets(text, builder);
  yaml_reader_detail::check_directives(text, builder);
  std::istringstream stream{std::string(text)};
  yaml_reader_detail::EventReader events(text, builder);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(events)) {
    }
  } catch (const YAML::Exception& error) {
    const Place place = yaml_reader_detail::place_of(error.mark);
    const bool tab = yaml_reader_detail::indented_with_tab(text, place.line);
    builder.fail(place,
                 tab ? "indent with blanks, not tabs" : yaml_reader_detail::explain(error.msg));
  }
}

}  // namespace tidemark
