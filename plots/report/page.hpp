// The page that reports are made from; page.cpp is generated from web/ by web/build_page.mjs.
#pragma once

#include <span>
#include <string_view>

namespace tidemark {

// Returns consecutive parts of one text, since compilers limit the length of a literal. None when
// Tidemark was built without npm.
[[nodiscard]] std::span<const std::string_view> page_parts();

}  // namespace tidemark
