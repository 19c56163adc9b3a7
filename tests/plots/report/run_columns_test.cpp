// A run as its page reads it.
#include "plots/report/run_columns.hpp"

#include <algorithm>
#include <ctime>
#include <map>
#include <set>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include "plots/report/column_file.hpp"
#include "plots/report/html_report.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/allocators/address_layout.hpp"
#include "sim/step/run_compiled.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::run_columns_test {

namespace {

using Json = nlohmann::json;

// A second implementation of the reader in web/src/columns.js.
struct Columns {
  Json description;
  std::map<std::string, std::vector<std::int64_t>> values;

  explicit Columns(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<std::uint64_t>(text.at(i) & 0xff); };
    const std::size_t length = byte(0) | byte(1) << 8U | byte(2) << 16U | byte(3) << 24U;
    description = Json::parse(text.substr(4, length));
    std::size_t at = 4 + length;
    for (const Json& column : description["columns"]) {
      const std::size_t end = at + column["bytes"].get<std::size_t>();
      std::vector<std::int64_t>& list = values[column["name"]];
      std::int64_t last = 0;
      while (at < end) {
        std::uint64_t zigzag = 0;
        unsigned shift = 0;
        do {
          zigzag |= (byte(at) & 0x7fU) << shift;
          shift += 7;
        } while ((byte(at++) & 0x80U) != 0);
        const auto value =
            static_cast<std::int64_t>(zigzag >> 1U) ^ -static_cast<std::int64_t>(zigzag & 1U);
        last = column["deltas"].get<bool>() ? last + value : value;
        list.push_back(last);
      }
      CHECK(list.size() == column["count"].get<std::size_t>());
    }
    CHECK(at == text.size());
  }
  const std::vector<std::int64_t>& operator[](const std::string& name) const {
    return values.at(name);
  }
};

struct Simulated {
  Scenario scenario;
  PointDetail detail;
  PointResult result;
  AddressLayout layout;

  explicit Simulated(std::string_view more, std::string_view gpu = "h100-sxm-80gb")
      : scenario(decode(fmt::format(
            "{{version: 1, model: {{preset: gpt, layers: 4, width: 256, heads: 4, vocab: 4096, "
            "sequence: 256}}, hardware: {}, training: {{micro_batch: 4, sequence: 256}}, {}}}",
            gpu, more))) {
    detail.model = std::make_shared<const TrainedModel>(build_training(scenario));
    result = simulate(scenario, *detail.model, {.smallest_capacity = false}, &detail);
    layout = address_layout(scenario, detail.compiled, detail.timeline,
                            result.status == PointStatus::kFits);
  }
  [[nodiscard]] Columns columns() const {
    return Columns(run_columns({.graph = detail.model->training,
                                .order = detail.compiled.order,
                                .program = detail.compiled.program,
                                .costs = detail.compiled.costs,
                                .scratch = detail.scratch,
                                .timeline = detail.timeline,
                                .layout = &layout}));
  }
};

// The place of a block, while the memory is its own.
struct Placed {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Walks the points: no two blocks ever share an address, and each lies in segments.
void check_addresses(const Columns& c) {
  REQUIRE(c["address.offset"].size() ==
          static_cast<std::size_t>(std::count(c["point.sign"].begin(), c["point.sign"].end(), 1)));
  REQUIRE_FALSE(c["segment.offset"].empty());
  std::map<std::int64_t, Placed> placed;  // by block
  std::size_t allocated = 0;
  std::size_t clashes = 0;
  std::size_t outside = 0;
  for (std::size_t i = 0; i < c["point.time"].size(); ++i) {
    const std::int64_t block = c["point.block"][i];
    // A block that is freed while a stream may use it keeps its address until the point of sign 0;
    // with the next allocation at the latest it must be returned.
    if (c["point.sign"][i] <= 0) {
      placed.erase(block);
      continue;
    }
    const std::int64_t begin = c["address.offset"][allocated++];
    const std::int64_t end = begin + c["block.bytes"][static_cast<std::size_t>(block)];
    for (const auto& [other, where] : placed) {
      if (begin < where.end && where.begin < end) ++clashes;
    }
    placed[block] = {begin, end};
    std::int64_t covered = 0;  // parts of an expandable segment are mapped one by one
    for (std::size_t s = 0; s < c["segment.offset"].size(); ++s) {
      const std::int64_t low = c["segment.offset"][s];
      const auto at = static_cast<std::int64_t>(i);
      if (c["segment.since"][s] > at || at >= c["segment.until"][s]) continue;
      covered += std::max<std::int64_t>(
          0, std::min(end, low + c["segment.bytes"][s]) - std::max(begin, low));
    }
    if (covered != end - begin) ++outside;
  }
  CHECK(clashes == 0);
  CHECK(outside == 0);
}

std::string unpacked(std::string_view base64) {
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (const char c : base64) {
    if (c == '=') break;
    bits = bits << 6U | static_cast<std::uint32_t>(kDigits.find(c));
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>((bits >> static_cast<unsigned>(count)) & 0xffU);
    }
  }
  std::string text(1 << 20, '\0');
  z_stream stream{};
  REQUIRE(inflateInit2(&stream, 15 + 16) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  CHECK(inflate(&stream, Z_FINISH) == Z_STREAM_END);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("columns keep every integer, with and without differences") {
    const std::vector<std::int64_t> values{0,
                                           1,
                                           -1,
                                           63,
                                           64,
                                           -64,
                                           -65,
                                           127,
                                           128,
                                           1 << 28,
                                           -300,
                                           -(std::int64_t{1} << 52),
                                           std::int64_t{1} << 52};
    ColumnFile file;
    ColumnWriter plain;
    ColumnWriter deltas(true);
    for (const std::int64_t value : values) {
      plain.add(value);
      deltas.add(value);
    }
    file.add("plain", plain);
    file.add("deltas", deltas);
    const Columns read(std::move(file).text({{"names", {"\xff not UTF-8", "</script>"}}}));
    CHECK(read["plain"] == values);
    CHECK(read["deltas"] == values);
  }

  TEST_CASE("what is packed for a page unpacks to the same bytes and ends no element") {
    for (const std::string text : {"", "a", "ab", "abc", "</script><b>\n\xff"}) {
      const std::string packed = packed_for_page(text);
      CHECK(packed.find('<') == std::string::npos);
      CHECK(unpacked(packed) == text);
    }
  }

  TEST_CASE("a run's columns hold its timeline, its peak and its waits") {
    const Simulated run("policies: [checkpoint: {first: 2}, offload_activations: {prefetch: 1}]");
    REQUIRE(run.result.status == PointStatus::kFits);
    const Columns c = run.columns();
    const std::vector<TimelinePoint>& points = run.detail.timeline.points;
    REQUIRE(c["point.time"].size() == points.size());
    std::int64_t live = 0;
    std::int64_t peak = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const auto block = static_cast<std::size_t>(c["point.block"][i]);
      live += c["point.sign"][i] * c["block.bytes"][block];
      REQUIRE(live == points[i].live.count);
      REQUIRE(c["point.time"][i] == points[i].time.count());
      REQUIRE(c["point.reserved"][i] == points[i].reserved.count);
      const auto position = static_cast<std::size_t>(c["point.position"][i]);
      if (c["position.step"][position] == 1) peak = std::max(peak, live);
    }
    CHECK(peak == run.result.run.live.bytes.count);

    // A block that is fetched back still belongs to the operator that made it, not to the one that
    // needs it.
    std::set<std::int64_t> phases;
    for (std::size_t b = 0; b < c["block.role"].size(); ++b) {
      if (static_cast<Role>(c["block.role"][b]) != Role::kSavedActivation) continue;
      phases.insert(c["operator.phase"].at(static_cast<std::size_t>(c["block.operator"][b] - 1)));
    }
    CHECK(phases == std::set<std::int64_t>{static_cast<std::int64_t>(Phase::kForward)});

    // The engine's own accounting of the last step, to the nanosecond.
    std::int64_t host = 0;
    std::int64_t transfer = 0;
    std::int64_t again = 0;
    for (std::size_t i = 0; i < c["work.start"].size(); ++i) {
      const auto position = static_cast<std::size_t>(c["work.position"][i]);
      if (c["position.step"][position] != 1) continue;
      if (c["position.recompute"][position] == 1 && c["work.kind"][i] == 0) {
        again += c["work.duration"][i];
      }
    }
    for (std::size_t i = 0; i < c["wait.begin"].size(); ++i) {
      if (c["position.step"][static_cast<std::size_t>(c["wait.position"][i])] != 1) continue;
      const auto cause = static_cast<std::size_t>(c["wait.cause"][i]);
      if (cause == kStreams) {
        host += c["wait.duration"][i];
      } else if (static_cast<Stream>(cause) == Stream::kCopyIn ||
                 static_cast<Stream>(cause) == Stream::kCopyOut) {
        transfer += c["wait.duration"][i];
      }
    }
    CHECK(host == run.result.run.host_bound.count());
    CHECK(transfer == run.result.run.exposed_transfer.count());
    CHECK(again == run.result.run.recompute.count());
    CHECK(again > 0);
  }

  TEST_CASE("blocks of the torch and packed allocators do not overlap inside segments") {
    for (const char* allocator : {"torch", "{kind: torch, expandable_segments: true}", "packed",
                                  "{kind: torch, garbage_collection_threshold: 0.5}"}) {
      CAPTURE(allocator);
      const Simulated run(fmt::format("allocator: {}", allocator));
      check_addresses(run.columns());
    }
  }

  TEST_CASE("blocks of the BFC allocator do not overlap inside its regions") {
    for (const char* allocator : {"bfc", "{kind: bfc, allow_growth: true}"}) {
      CAPTURE(allocator);
      const Simulated run(fmt::format("allocator: {}", allocator));
      const Columns c = run.columns();
      check_addresses(c);
      std::int64_t regions = 0;
      for (const std::int64_t bytes : c["segment.bytes"])
        regions += bytes;
      CHECK(regions == run.result.run.reserved.bytes.count);  // none was given back
    }
  }

  TEST_CASE("the lane of compute tells waits for the host's optimizer from waits for copies") {
    const Simulated run("policies: [offload_optimizer: {gradients: backward}]", "v100-sxm-16gb");
    const Columns c = run.columns();
    std::map<std::int64_t, std::int64_t> waited;  // by cause, in the last step
    for (std::size_t i = 0; i < c["wait.begin"].size(); ++i) {
      if (c["position.step"][static_cast<std::size_t>(c["wait.position"][i])] != 1) continue;
      CHECK(c["wait.duration"][i] > 0);
      waited[c["wait.cause"][i]] += c["wait.duration"][i];
    }
    const auto worker = static_cast<std::size_t>(Stream::kHostWorker);
    CHECK(waited[static_cast<std::int64_t>(worker)] > 0);
    CHECK(waited[static_cast<std::int64_t>(worker)] == run.result.run.exposed[worker].count());
  }

  TEST_CASE("addresses of a point that does not fit are those of a run with unlimited memory") {
    const Simulated run("allocator: torch", "{gpu: h100-sxm-80gb, hbm: {capacity: 640MiB}}");
    REQUIRE(run.result.status == PointStatus::kOutOfMemory);
    check_addresses(run.columns());
  }

  TEST_CASE("an allocator without addresses leaves the map empty") {
    const Columns c = Simulated("allocator: ideal").columns();
    CHECK(c["address.offset"].empty());
    CHECK(c["segment.offset"].empty());
    CHECK_FALSE(c["point.time"].empty());
  }
}

TEST_SUITE("slow") {
  TEST_CASE("the report of a step of llama-2-7b is written in under a second") {
    const Scenario scenario = decode(
        "{version: 1, model: llama-2-7b, hardware: h100-sxm-80gb, "
        "training: {micro_batch: 1, sequence: 4096}}");
    PointDetail detail;
    detail.model = std::make_shared<const TrainedModel>(build_training(scenario));
    const PointResult result =
        simulate(scenario, *detail.model, {.smallest_capacity = false}, &detail);
    double least = 1e9;  // of three; processor time, since other tests run at the same time
    for (int i = 0; i < 3; ++i) {
      const std::clock_t begin = std::clock();
      const AddressLayout layout = address_layout(scenario, detail.compiled, detail.timeline,
                                                  result.status == PointStatus::kFits);
      const std::string columns = run_columns({.graph = detail.model->training,
                                               .order = detail.compiled.order,
                                               .program = detail.compiled.program,
                                               .costs = detail.compiled.costs,
                                               .scratch = detail.scratch,
                                               .timeline = detail.timeline,
                                               .layout = &layout});
      CHECK(packed_for_page(columns).size() > 10'000);
      const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
      least = std::min(least, seconds);
    }
    CHECK(least < 1);
  }
}

}  // namespace tidemark::run_columns_test
