#include "scenarios/results/generation_json.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include <nlohmann/json.hpp>

namespace tidemark {
namespace generation_json_detail {
namespace {

constexpr double kNanoseconds = 1e9;

double seconds(Duration duration) {
  return static_cast<double>(duration.count()) / kNanoseconds;
}

Duration duration(const nlohmann::ordered_json& json) {
  return Duration(std::llround(json.get<double>() * kNanoseconds));
}

Bytes bytes(const nlohmann::ordered_json& json) {
  return Bytes(json.get<std::int64_t>());
}

}  // namespace
}  // namespace generation_json_detail

nlohmann::ordered_json to_json(const GenerationFigures& generation) {
  using generation_json_detail::seconds;
  const GenerationOptions& options = generation.options;
  const std::int64_t steps = std::max<std::int64_t>(options.tokens - 1, 1);
  nlohmann::ordered_json json = {
      {"sequences", generation.batch},
      {"prompt", options.prompt},
      {"tokens", options.tokens},
      {"cache", {{"kind", name_of(options.cache)}, {"bytes", generation.cache.count}}},
      {"prefill",
       {{"time", seconds(generation.prefill)}, {"peak_live", generation.prefill_peak.count}}},
      {"decode",
       {{"time", seconds(generation.decode)},
        {"per_token", seconds(generation.decode) / static_cast<double>(steps)},
        {"first_token", seconds(generation.first_step)},
        {"last_token", seconds(generation.last_step)},
        {"memory_bound", seconds(generation.memory_bound)},
        {"peak_live", generation.decode_peak.count},
        {"tokens_per_second", generation.tokens_per_second()}}}};
  if (options.cache == CacheKind::kPaged) {
    json["cache"]["block"] = options.block;
    json["cache"]["utilization"] = options.utilization;
    json["cache"]["blocks_that_fit"] = generation.blocks_that_fit;
  }
  return json;
}

GenerationFigures generation_from_json(const nlohmann::ordered_json& json) {
  using generation_json_detail::bytes;
  using generation_json_detail::duration;
  GenerationFigures generation;
  GenerationOptions& options = generation.options;
  generation.batch = json.at("sequences");
  options.prompt = json.at("prompt");
  options.tokens = json.at("tokens");
  const nlohmann::ordered_json& cache = json.at("cache");
  const auto kind =
      std::find(kCacheKinds.begin(), kCacheKinds.end(), cache.at("kind").get<std::string>());
  options.cache = static_cast<CacheKind>(kind - kCacheKinds.begin());
  generation.cache = bytes(cache.at("bytes"));
  if (options.cache == CacheKind::kPaged) {
    options.block = cache.at("block");
    options.utilization = cache.at("utilization");
    generation.blocks_that_fit = cache.at("blocks_that_fit");
  }
  generation.prefill = duration(json.at("prefill").at("time"));
  generation.prefill_peak = bytes(json.at("prefill").at("peak_live"));
  const nlohmann::ordered_json& decode = json.at("decode");
  generation.decode = duration(decode.at("time"));
  generation.first_step = duration(decode.at("first_token"));
  generation.last_step = duration(decode.at("last_token"));
  generation.memory_bound = duration(decode.at("memory_bound"));
  generation.decode_peak = bytes(decode.at("peak_live"));
  return generation;
}

}  // namespace tidemark
