#include "cli/text/generation_lines.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cli/text/wording.hpp"

namespace tidemark {

std::vector<std::pair<std::string, std::string>> generation_lines(
    const GenerationFigures& generation) {
  const GenerationOptions& options = generation.options;
  std::vector<std::pair<std::string, std::string>> lines;
  lines.emplace_back(
      "prompt",
      fmt::format("{} sequence{} of {} tokens in {}, {} live", grouped(generation.batch),
                  generation.batch == 1 ? "" : "s", grouped(options.prompt),
                  format_duration(generation.prefill), format_bytes(generation.prefill_peak)));
  if (options.tokens > 1) {
    lines.emplace_back(
        "tokens",
        fmt::format("{} to {} each ({} is reading weights and cache once), {} tokens/s, {} live",
                    format_duration(std::min(generation.first_step, generation.last_step)),
                    format_duration(std::max(generation.first_step, generation.last_step)),
                    format_duration(generation.memory_bound), rate(generation.tokens_per_second()),
                    format_bytes(generation.decode_peak)));
  }
  std::string cache = fmt::format("{} of keys and values ({})", format_bytes(generation.cache),
                                  name_of(options.cache));
  if (options.cache == CacheKind::kPaged) {
    cache += fmt::format(
        "; {} of the device leave {} blocks of {} tokens: {} such sequences",
        percent(options.utilization), grouped(generation.blocks_that_fit), options.block,
        grouped(generation.blocks_that_fit / std::max<std::int64_t>(options.blocks(), 1)));
  }
  lines.emplace_back("cache", cache);
  return lines;
}

}  // namespace tidemark
