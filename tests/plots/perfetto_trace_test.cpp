// The protobuf as protoc reads it.
#include "plots/perfetto_trace.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include "plots/protobuf_writer.hpp"
#include "tests/plots/traced_run.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::perfetto_trace_test {

namespace {

// A message as protoc prints it: "name: value" and "name { ... }" lines.
struct Message {
  std::multimap<std::string, std::string> values;
  std::multimap<std::string, Message> children;
  [[nodiscard]] std::string value(const std::string& name) const {
    const auto at = values.find(name);
    return at == values.end() ? std::string() : at->second;
  }
  [[nodiscard]] std::int64_t number(const std::string& name) const {
    REQUIRE(values.contains(name));
    return std::stoll(value(name));
  }
};

Message read_message(std::istream& in) {
  Message message;
  for (std::string line; std::getline(in, line);) {
    line.erase(0, line.find_first_not_of(' '));
    if (line == "}") break;
    if (line.ends_with(" {")) {
      message.children.emplace(line.substr(0, line.size() - 2), read_message(in));
    } else {
      const std::size_t colon = line.find(": ");
      message.values.emplace(line.substr(0, colon), line.substr(colon + 2));
    }
  }
  return message;
}

// Names that protoc does not know are numbers.
std::size_t unknown_fields(const Message& message) {
  std::size_t count = 0;
  const auto is_number = [](const std::string& name) {
    return name.find_first_not_of("0123456789") == std::string::npos;
  };
  for (const auto& [name, value] : message.values)
    count += is_number(name) ? 1U : 0U;
  for (const auto& [name, child] : message.children)
    count += (is_number(name) ? 1U : 0U) + unknown_fields(child);
  return count;
}

bool has_protoc() {
  if (std::system("protoc --version >/dev/null 2>&1") == 0) return true;
  MESSAGE("skipped: there is no protoc");
  return false;
}

Message decoded(const TracedRun& run) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("tidemark-perfetto-{}.trace", getpid()))
          .string();
  {
    std::ofstream out(path, std::ios::binary);
    write_perfetto_trace(out, run.model.training, run.detail.compiled.program, run.trace,
                         run.title);
  }
  const std::string schema = test::data_path("perfetto");
  CHECK(std::system(fmt::format("protoc --decode=perfetto.protos.Trace --proto_path='{}' "
                                "trace.proto <'{}' >'{}.txt'",
                                schema, path, path)
                        .c_str()) == 0);
  CHECK(std::system(fmt::format("protoc --decode_raw <'{}' >/dev/null", path).c_str()) == 0);
  std::ifstream text(path + ".txt");
  Message message = read_message(text);
  std::filesystem::remove(path);
  std::filesystem::remove(path + ".txt");
  return message;
}

// A track is a process, a thread of one that has been described, or a counter of one: readers
// group by these, and take uuid 0 for the default track.
void check_track(const Message& track, std::map<std::int64_t, const Message*>& known) {
  CHECK(track.number("uuid") != 0);
  CHECK(known.emplace(track.number("uuid"), &track).second);
  const std::size_t kinds = track.children.count("process") + track.children.count("thread") +
                            track.children.count("counter");
  CHECK(kinds == 1);
  if (track.children.contains("process")) {
    CHECK_FALSE(track.values.contains("parent_uuid"));
    return;
  }
  REQUIRE(known.contains(track.number("parent_uuid")));
  const Message& parent = *known.at(track.number("parent_uuid"));
  REQUIRE(parent.children.contains("process"));
  const auto thread = track.children.find("thread");
  if (thread == track.children.end()) {
    CHECK_FALSE(track.value("name").empty());
    return;
  }
  // Pid and tid find the process, not the parent.
  CHECK(thread->second.number("pid") == parent.children.find("process")->second.number("pid"));
  for (const auto& [uuid, other] : known) {
    if (other == &track || !other->children.contains("thread")) continue;
    CHECK(other->children.find("thread")->second.number("tid") != thread->second.number("tid"));
  }
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("protobuf's wire format, by the examples of its documentation") {
    const auto bytes = [](const ProtobufMessage& message) {
      std::string hex;
      for (const char c : message.bytes())
        hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
      return hex;
    };
    ProtobufMessage test1;  // message Test1 { int32 a = 1; } with a = 150
    test1.varint(1, 150);
    CHECK(bytes(test1) == "089601");
    ProtobufMessage test2;  // message Test2 { string b = 2; } with "testing"
    test2.text(2, "testing");
    CHECK(bytes(test2) == "120774657374696e67");
    ProtobufMessage test3;  // message Test3 { Test1 c = 3; }
    test3.message(3, test1);
    CHECK(bytes(test3) == "1a03089601");
    ProtobufMessage negative;
    negative.integer(1, -2);
    CHECK(bytes(negative) == "08feffffffffffffffff01");
    ProtobufMessage fixed;
    fixed.fixed64(47, 1);  // key 47 << 3 | 1 = 377
    CHECK(bytes(fixed) == "f9020100000000000000");
  }
}

TEST_SUITE("golden") {
  TEST_CASE("protoc reads a Perfetto trace: slices nest, flows pair, counters are the run's") {
    if (!has_protoc()) return;
    for (const std::string& setting : traced_settings()) {
      CAPTURE(setting);
      const TracedRun run(setting);
      const Message trace = decoded(run);
      CHECK(unknown_fields(trace) == 0);
      const Message* first = &trace.children.begin()->second;
      std::map<std::int64_t, const Message*> tracks;
      std::map<std::int64_t, std::vector<std::string>> open;  // by track
      std::map<std::int64_t, std::int64_t> last_time;
      std::map<std::int64_t, std::int64_t> values;  // by counter
      std::map<std::string, std::pair<int, int>> flows;
      std::size_t slices = 0;
      std::int64_t most_reserved = 0;
      for (const auto& [name, packet] : trace.children) {
        CHECK(name == "packet");
        CHECK(packet.number("trusted_packet_sequence_id") == 1);
        // A reader drops what comes before incremental state is cleared, once per sequence.
        CHECK(packet.values.contains("sequence_flags") == (&packet == first));
        if (&packet == first) CHECK(packet.number("sequence_flags") == 1);
        if (const auto at = packet.children.find("track_descriptor"); at != packet.children.end()) {
          check_track(at->second, tracks);
          continue;
        }
        const Message& event = packet.children.find("track_event")->second;
        const std::int64_t track = event.number("track_uuid");
        const std::int64_t time = packet.number("timestamp");
        REQUIRE(tracks.contains(track));  // described before
        CHECK(time >= last_time[track]);
        last_time[track] = time;
        const std::string type = event.value("type");
        if (type == "TYPE_SLICE_BEGIN") {
          open[track].push_back(event.value("name"));
          ++slices;
        } else if (type == "TYPE_SLICE_END") {
          REQUIRE_FALSE(open[track].empty());
          open[track].pop_back();
        } else {
          CHECK(type == "TYPE_COUNTER");
          CHECK(tracks.at(track)->children.contains("counter"));
          const Message& counter = tracks.at(track)->children.find("counter")->second;
          CHECK(counter.value("unit") == "UNIT_SIZE_BYTES");
          values[track] = event.number("counter_value");
          CHECK(values[track] >= 0);
          if (tracks.at(track)->value("name") == "\"reserved memory\"") {
            most_reserved = std::max(most_reserved, values[track]);
          }
        }
        for (auto [at, end] = event.values.equal_range("flow_ids"); at != end; ++at)
          ++flows[at->second].first;
        for (auto [at, end] = event.values.equal_range("terminating_flow_ids"); at != end; ++at)
          ++flows[at->second].second;
      }
      for (const auto& [track, names] : open)
        CHECK(names.empty());
      CHECK(flows.size() == run.trace.flows.size());
      for (const auto& [id, ends] : flows)
        CHECK(ends == std::pair(1, 1));
      // Each kernel and copy on its stream and on the host, and the spans around them.
      CHECK(slices == 2 * run.trace.slices.size() + run.trace.spans.size());
      CHECK(most_reserved == run.result.run.most_reserved.count);
    }
  }
}

}  // namespace tidemark::perfetto_trace_test
