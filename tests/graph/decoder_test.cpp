#include "graph/core/decoder.hpp"

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

namespace tidemark::decoder_test {
namespace {

constexpr std::array<std::string_view, 3> kAttention{"math", "flash", "efficient"};

// Returns the message of `read` for a document that it refuses.
std::string refusal(const std::string& text, const std::function<void(const Decoder&)>& read) {
  try {
    const Value root = parse_document(text, "s.yaml");
    read(Decoder(root));
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

// Returns the message for one key "a" that is read as a T.
template <class T>
std::string refusal_of(const std::string& text, Range range = {}) {
  return refusal("a: " + text + "\n",
                 [&](const Decoder& d) { static_cast<void>(d.required<T>("a", range)); });
}

template <class T>
T read_a(const std::string& text) {
  const Value root = parse_document("a: " + text + "\n", "s.yaml");
  return Decoder(root).required<T>("a");
}

TEST_SUITE("unit") {
  TEST_CASE("values of every type are read") {
    CHECK(read_a<bool>("true"));
    CHECK_FALSE(read_a<bool>("false"));
    CHECK(read_a<int>("-3") == -3);
    CHECK(read_a<int>("+3") == 3);
    CHECK(read_a<std::int64_t>("1_000_000") == 1'000'000);
    CHECK(read_a<std::int64_t>("-9223372036854775808") == std::numeric_limits<std::int64_t>::min());
    CHECK(read_a<double>("0.1") == 0.1);
    CHECK(read_a<double>("1e-5") == 1e-5);
    CHECK(read_a<double>("3") == 3.0);
    CHECK(read_a<double>(".5") == 0.5);
    CHECK(read_a<double>("1_000.5") == 1000.5);
    CHECK(read_a<std::string>("h100") == "h100");
    CHECK(read_a<std::string>("4090") == "4090");
    CHECK(read_a<std::string>("''").empty());
    CHECK(read_a<Bytes>("80GiB") == 80 * kGiB);
    CHECK(read_a<Bytes>("\"80GiB\"") == 80 * kGiB);
    CHECK(read_a<Duration>("5ms") == std::chrono::milliseconds(5));
    CHECK(read_a<BytesPerSecond>("3.35TB/s").value == 3.35e12);
    CHECK(read_a<FlopsPerSecond>("989TFLOP/s").value == 989e12);
  }

  TEST_CASE("an absent or null key takes its default") {
    const Value root = parse_document("a:\nb: 2\n", "s.yaml");
    const Decoder d(root);
    CHECK(d.optional<int>("a", 7) == 7);
    CHECK(d.optional<int>("b", 7) == 2);
    CHECK(d.optional<int>("c", 7) == 7);
    CHECK_FALSE(d.maybe<int>("a").has_value());
    CHECK(d.maybe<int>("b") == 2);
    CHECK(d.list<int>("c").empty());
    CHECK_FALSE(d.has("a"));
    CHECK(d.has("b"));
    CHECK(d.optional_word("a", kAttention, "flash") == "flash");
    CHECK(d.optional_child("e").optional_child("f").optional<bool>("g", true));
    d.finish();
    const Decoder empty;
    CHECK(empty.optional<Bytes>("a", kMiB) == kMiB);
    CHECK(empty.items().empty());
    CHECK(empty.entries().empty());
    empty.finish();
  }

  TEST_CASE("integers are decimal, whole and in range") {
    CHECK(
        refusal("training:\n  micro_batch: many\n", [](const Decoder& d) {
          const Decoder training = d.optional_child("training");
          static_cast<void>(training.optional<int>("micro_batch", 1, at_least(1)));
        }) == "s.yaml:2:16: training.micro_batch: expected an integer of at least 1, found 'many'");
    CHECK(refusal_of<int>("010") ==
          "s.yaml:1:4: a: expected an integer, found '010': a leading zero means octal to some "
          "YAML readers; leave it out");
    CHECK(refusal_of<int>("1e3") == "s.yaml:1:4: a: expected an integer, found '1e3'; write 1000");
    CHECK(refusal_of<int>("8.0") == "s.yaml:1:4: a: expected an integer, found '8.0'; write 8");
    CHECK(refusal_of<int>("8.5") == "s.yaml:1:4: a: expected an integer, found '8.5'");
    CHECK(refusal_of<int>("0x10") ==
          "s.yaml:1:4: a: expected an integer, found '0x10'; hexadecimal is not supported");
    CHECK(refusal_of<int>("0o10") ==
          "s.yaml:1:4: a: expected an integer, found '0o10'; octal is not supported");
    CHECK(refusal_of<int>("\"8\"") ==
          "s.yaml:1:4: a: expected an integer, found '8' in quotes; leave the quotes out");
    CHECK(refusal_of<int>("3000000000") ==
          "s.yaml:1:4: a: 3000000000 is too large; integers here go from -2147483648 to "
          "2147483647");
    CHECK(refusal_of<std::int64_t>("-9223372036854775809") ==
          "s.yaml:1:4: a: -9223372036854775809 is too small; integers here go from "
          "-9223372036854775808 to 9223372036854775807");
    CHECK(refusal_of<int>("1__0") == "s.yaml:1:4: a: expected an integer, found '1__0'");
    CHECK(refusal_of<int>("+-1") == "s.yaml:1:4: a: expected an integer, found '+-1'");
    CHECK(refusal_of<int>("true") == "s.yaml:1:4: a: expected an integer, found 'true'");
    CHECK(refusal_of<int>("[1]") == "s.yaml:1:4: a: expected an integer, found a list");
    CHECK(refusal_of<int>("{b: 1}") == "s.yaml:1:4: a: expected an integer, found a mapping");
    CHECK(refusal_of<int>("~") == "s.yaml:1:4: a: expected an integer, found null");
    CHECK(refusal_of<int>("0", at_least(1)) ==
          "s.yaml:1:4: a: expected an integer of at least 1, found 0");
    CHECK(refusal_of<int>("9", between(0, 8)) ==
          "s.yaml:1:4: a: expected an integer from 0 to 8, found 9");
    CHECK(refusal_of<int>("8", between(0, 8)) == "accepted");
  }

  TEST_CASE("numbers are finite and in range") {
    CHECK(refusal_of<double>(".nan") ==
          "s.yaml:1:4: a: expected a number, found '.nan'; only finite numbers are supported");
    CHECK(refusal_of<double>("-Infinity") ==
          "s.yaml:1:4: a: expected a number, found '-Infinity'; only finite numbers are supported");
    CHECK(refusal_of<double>("1e999") ==
          "s.yaml:1:4: a: 1e999 is beyond the range of a 64-bit floating-point number");
    CHECK(refusal_of<double>("50%") ==
          "s.yaml:1:4: a: expected a number, found '50%'; write 50% as 0.5");
    CHECK(refusal_of<double>("1.5", between(0, 1)) ==
          "s.yaml:1:4: a: expected a number from 0 to 1, found 1.5");
    CHECK(refusal_of<double>("0", above(0)) == "s.yaml:1:4: a: expected a number above 0, found 0");
    CHECK(refusal_of<double>("0", Range{.low = 0, .high = 0.5, .low_excluded = true}) ==
          "s.yaml:1:4: a: expected a number above 0 and at most 0.5, found 0");
    CHECK(refusal_of<double>("1.2.3") == "s.yaml:1:4: a: expected a number, found '1.2.3'");
    CHECK(refusal_of<double>("1e") == "s.yaml:1:4: a: expected a number, found '1e'");
    CHECK(refusal_of<double>(".") == "s.yaml:1:4: a: expected a number, found '.'");
  }

  TEST_CASE("true and false are the only truth values") {
    CHECK(refusal_of<bool>("yes") ==
          "s.yaml:1:4: a: expected true or false, found 'yes'; write true");
    CHECK(refusal_of<bool>("Off") ==
          "s.yaml:1:4: a: expected true or false, found 'Off'; write false");
    CHECK(refusal_of<bool>("True") ==
          "s.yaml:1:4: a: expected true or false, found 'True'; write true");
    CHECK(refusal_of<bool>("0") == "s.yaml:1:4: a: expected true or false, found '0'; write false");
    CHECK(refusal_of<bool>("\"true\"") ==
          "s.yaml:1:4: a: expected true or false, found 'true'; write true without quotes");
    CHECK(refusal_of<bool>("maybe") == "s.yaml:1:4: a: expected true or false, found 'maybe'");
  }

  TEST_CASE("quantities carry their unit and are compared in it") {
    CHECK(refusal_of<Bytes>("80G") ==
          "s.yaml:1:4: a: 80G is ambiguous: write 80GB (10^9) or 80GiB (2^30)");
    CHECK(refusal_of<Bytes>("1B", at_least(512)) ==
          "s.yaml:1:4: a: expected a size of at least 512 B, found 1B");
    CHECK(refusal_of<Bytes>("[1]") == "s.yaml:1:4: a: expected a size, found a list");
    CHECK(refusal_of<Duration>("2h", between(0, 60)) ==
          "s.yaml:1:4: a: expected a duration from 0 s to 60 s, found 2h");
    CHECK(refusal_of<Duration>("100ms", at_least(0.1)) == "accepted");
    CHECK(refusal_of<Duration>("80GiB") ==
          "s.yaml:1:4: a: 80GiB is a size; expected a duration such as 60s or 5ms");
    CHECK(refusal_of<BytesPerSecond>("0", above(0)) ==
          "s.yaml:1:4: a: expected a bandwidth above 0 B/s, found 0");
  }

  TEST_CASE("an unknown key is an error with the nearest known key") {
    const auto read = [](const Decoder& d) {
      const Decoder training = d.optional_child("training");
      static_cast<void>(training.optional<int>("micro_batch", 1));
      static_cast<void>(training.optional<int>("sequence", 1));
      training.finish();
      d.finish();
    };
    CHECK(refusal("training:\n  sequence: 4\n  micro_bacth: 2\n", read) ==
          "s.yaml:3:3: training.micro_bacth: unknown key; did you mean 'micro_batch'?");
    CHECK(refusal("training:\n  colour: 2\n", read) ==
          "s.yaml:2:3: training.colour: unknown key; known keys: micro_batch, sequence");
    CHECK(refusal("Training:\n  sequence: 2\n", read) ==
          "s.yaml:1:1: Training: unknown key; did you mean 'training'?");
    CHECK(refusal("training:\n  sequence: 4\n", read) == "accepted");
    CHECK(refusal("a: {b: 1}\n", [](const Decoder& d) { d.optional_child("a").finish(); }) ==
          "s.yaml:1:5: a.b: unknown key");
  }

  TEST_CASE("copies and children share the record of the keys that were read") {
    const Value root = parse_document("a: 1\nb: 2\n", "s.yaml");
    const Decoder d(root);
    const std::vector<Decoder> copies{d, d};
    CHECK(copies[0].required<int>("a") == 1);
    CHECK(d.has("b"));
    copies[1].finish();
  }

  TEST_CASE("a missing required key is reported at the mapping that lacks it") {
    const auto read = [](const Decoder& d) {
      static_cast<void>(d.required_child("gpu").required<Bytes>("memory"));
    };
    CHECK(refusal("gpu:\n  cores: 1\n", read) ==
          "s.yaml:2:3: gpu.memory: required key is missing; expected a size");
    CHECK(refusal("gpu:\n  memroy: 1GiB\n", read) ==
          "s.yaml:2:3: gpu.memory: required key is missing; expected a size; is 'memroy' meant to "
          "be it?");
    CHECK(refusal("x: 1\n", read) ==
          "s.yaml:1:1: gpu: required key is missing; expected a mapping");
    CHECK(refusal("gpu:\n", read) == "s.yaml:1:1: gpu: expected a mapping, found null");
    CHECK(refusal("", read) == "s.yaml:1:1: gpu: required key is missing; expected a mapping");
  }

  TEST_CASE("a value that should have keys must be a mapping") {
    const auto read = [](const Decoder& d) {
      static_cast<void>(d.optional_child("gpu").optional<int>("cores", 1));
    };
    CHECK(refusal("gpu: h100\n", read) == "s.yaml:1:6: gpu: expected a mapping, found 'h100'");
    CHECK(refusal("gpu: [1]\n", read) == "s.yaml:1:6: gpu: expected a mapping, found a list");
    CHECK(refusal("gpu:h100\n", read) ==
          "s.yaml:1:1: expected a mapping, found 'gpu:h100'; a blank must follow the colon");
    CHECK(refusal("gpu: h100\n", [](const Decoder& d) { d.optional_child("gpu").finish(); }) ==
          "s.yaml:1:6: gpu: expected a mapping, found 'h100'");
    CHECK(refusal("gpu: [1]\n", [](const Decoder& d) {
            static_cast<void>(d.optional_child("gpu").entries());
          }) == "s.yaml:1:6: gpu: expected a mapping, found a list");
  }

  TEST_CASE("lists are read item by item with the index in the path") {
    const Value root = parse_document("a: [1, 2]\nb:\n  - c: 3\n  - c: 4\n", "s.yaml");
    const Decoder d(root);
    CHECK(d.list<int>("a") == std::vector<int>{1, 2});
    const std::vector<Decoder> items = d.required_child("b").items();
    REQUIRE(items.size() == 2);
    CHECK(items[1].path() == "b[1]");
    CHECK(items[1].required<int>("c") == 4);
    CHECK(d.required_child("a").items()[0].as<int>() == 1);
    CHECK(refusal("a: [1, x]\n", [](const Decoder& e) { static_cast<void>(e.list<int>("a")); }) ==
          "s.yaml:1:8: a[1]: expected an integer, found 'x'");
    CHECK(refusal("a: 3\n", [](const Decoder& e) { static_cast<void>(e.list<int>("a")); }) ==
          "s.yaml:1:4: a: expected a list, found '3'; write [3]");
    CHECK(refusal("a: 3\n", [](const Decoder& e) {
            static_cast<void>(e.optional_child("a").items());
          }) == "s.yaml:1:4: a: expected a list, found '3'");
    CHECK(refusal("b:\n  - c: 3\n    d: 4\n", [](const Decoder& e) {
            const Decoder item = e.optional_child("b").items().front();
            static_cast<void>(item.required<int>("c"));
            item.finish();
          }) == "s.yaml:3:5: b[0].d: unknown key; known keys: c");
  }

  TEST_CASE("the entries of a mapping come in the order of the file") {
    const Value root = parse_document("z: 1\na: 2\n", "s.yaml");
    const Decoder d(root);
    const auto entries = d.entries();
    REQUIRE(entries.size() == 2);
    CHECK(entries[0].first == "z");
    CHECK(entries[1].second.as<int>() == 2);
    d.finish();
  }

  TEST_CASE("a word must be one of those given") {
    const auto read = [](const Decoder& d) {
      static_cast<void>(d.required_word("attention", kAttention));
    };
    CHECK(refusal("attention: flash\n", read) == "accepted");
    CHECK(refusal("attention: flsh\n", read) ==
          "s.yaml:1:12: attention: expected one of math, flash, efficient, found 'flsh'; did you "
          "mean 'flash'?");
    CHECK(refusal("attention: 3\n", read) ==
          "s.yaml:1:12: attention: expected one of math, flash, efficient, found '3'");
    CHECK(refusal("attention: [flash]\n", read) ==
          "s.yaml:1:12: attention: expected one of math, flash, efficient, found a list");
    CHECK(refusal("x: 1\n", read) ==
          "s.yaml:1:1: attention: required key is missing; expected one of math, flash, efficient");
    const std::array<std::string_view, 1> only{"auto"};
    CHECK(refusal("a: b\n", [&](const Decoder& d) {
            static_cast<void>(d.optional_word("a", only, "auto"));
          }) == "s.yaml:1:4: a: expected auto, found 'b'");
  }

  TEST_CASE("a caller's own complaint carries the place") {
    CHECK(refusal("a:\n  b: 1\n", [](const Decoder& d) {
            d.optional_child("a").fail("too odd");
          }) == "s.yaml:2:3: a: too odd");
    CHECK(refusal("a:\n  b: 1\n", [](const Decoder& d) {
            d.optional_child("a").fail_at("b", "too odd");
          }) == "s.yaml:2:6: a.b: too odd");
    CHECK(refusal("a:\n  b: 1\n", [](const Decoder& d) {
            d.optional_child("x").fail_at("y", "is needed");
          }) == "s.yaml:1:1: x.y: is needed");
    CHECK_THROWS_WITH_AS(Decoder().fail("too odd"), "too odd", UserError);
  }

  TEST_CASE("describing notes each parameter once, with type, default and range") {
    std::vector<ParameterNote> notes;
    const Decoder d = Decoder::describing(notes);
    CHECK(d.required<int>("segments", at_least(1)) == 1);
    CHECK(d.required<int>("segments", at_least(1)) == 1);
    CHECK(d.required<double>("share", Range{.low = 0, .high = 1, .low_excluded = true}) == 1);
    CHECK(d.required<double>("free") == 0);
    CHECK(d.required<Bytes>("block", above(0)) == Bytes(1));
    CHECK(d.optional<Bytes>("chunk", 2 * kMiB, at_least(512)) == 2 * kMiB);
    CHECK(d.optional<Duration>("limit", std::chrono::seconds(60)) == std::chrono::seconds(60));
    CHECK(d.optional<std::string>("name", "").empty());
    CHECK_FALSE(d.maybe<double>("slack", between(0, 1)).has_value());
    CHECK(d.list<int>("layers").empty());
    CHECK(d.required_word("attention", kAttention) == "math");
    CHECK(d.optional_child("copy").optional<bool>("overlap", true));
    CHECK_FALSE(d.has("other"));
    d.finish();
    std::vector<std::string> lines;
    lines.reserve(notes.size());
    for (const ParameterNote& n : notes) {
      lines.push_back(n.name + "|" + n.type + "|" + n.default_value + "|" + n.range);
    }
    CHECK(lines == std::vector<std::string>{
                       "segments|integer||>= 1",
                       "share|number||> 0, <= 1",
                       "free|number||",
                       "block|size||> 0 B",
                       "chunk|size|2 MiB|>= 512 B",
                       "limit|duration|60 s|",
                       "name|text|''|",
                       "slack|number|none|0 to 1",
                       "layers|list of integer|[]|",
                       "attention|word||math | flash | efficient",
                       "copy.overlap|true or false|true|",
                   });
  }

  TEST_CASE("the nearest word is the one with the fewest slips") {
    const std::vector<std::string> words{"math", "flash", "micro_batch", "h100-sxm"};
    CHECK(nearest_word("flahs", words) == "flash");  // a swap is one slip
    CHECK(nearest_word("FLASH", words) == "flash");
    CHECK(nearest_word("mcro_btach", words) == "micro_batch");
    CHECK(nearest_word("h100_sxm", words) == "h100-sxm");
    CHECK_FALSE(nearest_word("colour", words).has_value());
    CHECK_FALSE(nearest_word("", words).has_value());
    CHECK_FALSE(nearest_word(std::string(100'000, 'x'), words).has_value());
    CHECK(did_you_mean("mth", words) == "; did you mean 'math'?");
    CHECK(did_you_mean("colour", words).empty());
  }

  TEST_CASE("an error says file, line, column and path as far as they are known") {
    CHECK(std::string(UserError({"s.yaml", 3, 7}, "a.b", "is odd").what()) ==
          "s.yaml:3:7: a.b: is odd");
    CHECK(std::string(UserError({"s.yaml", 0, 0}, "", "is odd").what()) == "s.yaml: is odd");
    CHECK(std::string(UserError({"", 0, 0}, "a.b", "is odd").what()) == "a.b: is odd");
    CHECK(std::string(UserError("is odd").what()) == "is odd");
    CHECK(UserError({"s.yaml", 3, 7}, "a.b", "is odd").location().line == 3);
  }
}

}  // namespace
}  // namespace tidemark::decoder_test
