#include "sim/memory/torch/torch_options.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace {

// CUDAAllocatorConfig of PyTorch 2.4.
constexpr std::int64_t kSmallestSplitLimitMb = 20;  // kLargeBuffer; the limit must be larger
constexpr std::int64_t kMostRegisterThreads = 128;

using Divisions = std::array<std::int64_t, kRoundupIntervals>;

[[noreturn]] void refuse(const std::string& problem) {
  throw std::invalid_argument(problem);
}

// The text without blanks, in pieces that end at , : [ or ], which are pieces of their own.
std::vector<std::string> pieces_of(std::string_view text) {
  std::vector<std::string> pieces;
  bool word_open = false;
  for (const char c : text) {
    if (c == ' ') continue;
    if (c == ',' || c == ':' || c == '[' || c == ']') {
      pieces.emplace_back(1, c);
      word_open = false;
    } else {
      if (!word_open) pieces.emplace_back();
      word_open = true;
      pieces.back() += c;
    }
  }
  return pieces;
}

class Pieces {
 public:
  explicit Pieces(std::string_view text) : pieces_(pieces_of(text)) {}

  [[nodiscard]] bool at_end() const { return at_ == pieces_.size(); }
  [[nodiscard]] bool next_is(std::string_view piece) const {
    return !at_end() && pieces_[at_] == piece;
  }
  bool skip(std::string_view piece) {
    if (!next_is(piece)) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view piece, std::string_view where) {
    if (skip(piece)) return;
    refuse(fmt::format("expected '{}' {}, found {}", piece, where, found()));
  }
  // A word: anything but punctuation.
  std::string word(std::string_view what) {
    const bool punctuation = at_end() || pieces_[at_] == "," || pieces_[at_] == ":" ||
                             pieces_[at_] == "[" || pieces_[at_] == "]";
    if (punctuation) refuse(fmt::format("expected {}, found {}", what, found()));
    return pieces_[at_++];
  }

 private:
  [[nodiscard]] std::string found() const {
    return at_end() ? std::string("the end") : quoted(pieces_[at_]);
  }

  std::vector<std::string> pieces_;
  std::size_t at_ = 0;
};

std::int64_t integer(const std::string& word, std::string_view option) {
  std::int64_t value = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error == std::errc::result_out_of_range) {
    refuse(fmt::format("{}: {} is too large", option, quoted(word)));
  }
  if (error != std::errc() || stop != end || value < 0) {
    refuse(fmt::format("{}: expected a whole number, found {}", option, quoted(word)));
  }
  return value;
}

double number(const std::string& word, std::string_view option) {
  double value = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc() || stop != end) {
    refuse(fmt::format("{}: expected a number, found {}", option, quoted(word)));
  }
  return value;
}

bool true_or_false(const std::string& word, std::string_view option) {
  if (word != "True" && word != "False") {
    refuse(fmt::format("{}: expected True or False, found {}", option, quoted(word)));
  }
  return word == "True";
}

bool is_power_of_two(std::int64_t value) {
  return value > 0 && std::has_single_bit(static_cast<std::uint64_t>(value));
}

void check_division(std::int64_t divisions, bool zero_allowed) {
  if (is_power_of_two(divisions) || (zero_allowed && divisions == 0)) return;
  refuse(fmt::format("roundup_power2_divisions: divisions must be a power of two{}, found {}",
                     zero_allowed ? " or 0" : "", divisions));
}

// Collects intervals in the order in which they are given. The first also sets everything below it;
// ">" sets everything from the last one on, that one included.
class Intervals {
 public:
  void set(std::int64_t mebibytes, std::int64_t divisions) {
    if (!is_power_of_two(mebibytes)) {
      refuse(
          fmt::format("roundup_power2_divisions: intervals must be a power of two in MiB, found "
                      "{}",
                      mebibytes));
    }
    check_division(divisions, true);
    const int exponent = std::countr_zero(static_cast<std::uint64_t>(mebibytes));
    last_ = std::min<std::size_t>(static_cast<std::size_t>(exponent), kRoundupIntervals - 1);
    if (first_) std::fill_n(divisions_.begin(), last_, divisions);
    first_ = false;
    divisions_[last_] = divisions;
  }
  void set_rest(std::int64_t divisions) {
    check_division(divisions, true);
    std::fill(divisions_.begin() + static_cast<std::ptrdiff_t>(last_), divisions_.end(), divisions);
  }
  [[nodiscard]] const Divisions& divisions() const { return divisions_; }

 private:
  Divisions divisions_{};
  std::size_t last_ = 0;
  bool first_ = true;
};

Divisions read_divisions(Pieces& pieces) {
  constexpr std::string_view kOption = "roundup_power2_divisions";
  if (!pieces.skip("[")) {
    Divisions divisions{};
    const std::int64_t value = integer(pieces.word("divisions"), kOption);
    check_division(value, false);
    divisions.fill(value);
    return divisions;
  }
  Intervals intervals;
  while (!pieces.skip("]")) {
    const std::string key = pieces.word("an interval in MiB, '>' or ']'");
    pieces.expect(":", "after the interval");
    const std::int64_t divisions = integer(pieces.word("divisions"), kOption);
    if (key == ">") {
      intervals.set_rest(divisions);
    } else {
      intervals.set(integer(key, kOption), divisions);
    }
    if (!pieces.next_is("]")) pieces.expect(",", "between intervals");
  }
  return intervals.divisions();
}

double check_threshold(double value) {
  if (!(value > 0 && value < 1)) {
    refuse(
        fmt::format("garbage_collection_threshold: must be above 0 and below 1, found {}", value));
  }
  return value;
}

[[noreturn]] void refuse_option(const std::string& name) {
  const std::vector<std::string> known{
      "max_split_size_mb",           "garbage_collection_threshold", "roundup_power2_divisions",
      "expandable_segments",         "release_lock_on_cudamalloc",   "backend",
      "pinned_num_register_threads", "pinned_use_cuda_host_register"};
  const std::vector<std::string> newer{
      "max_non_split_rounding_mb",     "per_process_memory_fraction",
      "large_segment_size_mb",         "graph_capture_record_stream_reuse",
      "pinned_use_background_threads", "pinned_reserve_segment_size_mb"};
  if (std::find(newer.begin(), newer.end(), name) != newer.end()) {
    refuse(fmt::format("option '{}' is of a newer PyTorch; {} does not know it", name,
                       kTorchAllocatorVersion));
  }
  refuse(fmt::format("unknown option {}{}", quoted(name), did_you_mean(name, known)));
}

void read_option(const std::string& name, Pieces& pieces, TorchAllocatorOptions& options) {
  if (name == "roundup_power2_divisions") {
    options.roundup_power2_divisions = read_divisions(pieces);
    return;
  }
  const auto value = [&] { return pieces.word("the value of " + name); };
  if (name == "max_split_size_mb") {
    const std::int64_t mebibytes = integer(value(), name);
    if (mebibytes <= kSmallestSplitLimitMb) {
      refuse(fmt::format("{}: must be above {}, found {}", name, kSmallestSplitLimitMb, mebibytes));
    }
    options.max_split_size =
        mebibytes > kNoSplitLimit / kMiB.count ? kNoSplitLimit : mebibytes * kMiB.count;
  } else if (name == "garbage_collection_threshold") {
    options.garbage_collection_threshold = check_threshold(number(value(), name));
  } else if (name == "expandable_segments") {
    options.expandable_segments = true_or_false(value(), name);
  } else if (name == "release_lock_on_cudamalloc" || name == "pinned_use_cuda_host_register") {
    static_cast<void>(true_or_false(value(), name));
  } else if (name == "pinned_num_register_threads") {
    const std::int64_t threads = integer(value(), name);
    if (!is_power_of_two(threads) || threads > kMostRegisterThreads) {
      refuse(fmt::format("{}: must be a power of two up to {}, found {}", name,
                         kMostRegisterThreads, threads));
    }
  } else if (name == "backend") {
    const std::string backend = value();
    if (backend == "cudaMallocAsync")
      refuse("backend: cudaMallocAsync is not modelled, only native");
    if (backend != "native") {
      refuse(fmt::format("backend: expected native, found {}", quoted(backend)));
    }
  } else {
    refuse_option(name);
  }
}

// Runs a parser of texts for a key of a scenario.
template <class F>
auto at_key(const Decoder& decoder, std::string_view key, F&& parse) {
  try {
    return parse();
  } catch (const std::invalid_argument& error) {
    decoder.fail_at(key, error.what());
  }
}

// {256MiB: 1, 512MiB: 2, ">": 4}
Divisions decode_intervals(const Decoder& mapping) {
  Intervals intervals;
  for (const auto& [key, value] : mapping.entries()) {
    const auto divisions = value.as<std::int64_t>(at_least(0));
    try {
      if (key == ">") {
        intervals.set_rest(divisions);
        continue;
      }
      const Bytes size = parse_bytes(key);
      if (size.count % kMiB.count != 0) refuse("intervals are whole MiB, found " + quoted(key));
      intervals.set(size.count / kMiB.count, divisions);
    } catch (const std::invalid_argument& error) {
      value.fail(error.what());
    }
  }
  return intervals.divisions();
}

}  // namespace

Divisions parse_roundup_divisions(std::string_view text) {
  Pieces pieces(text);
  const Divisions divisions = read_divisions(pieces);
  if (!pieces.at_end()) pieces.expect("the end", "after the divisions");
  return divisions;
}

TorchAllocatorOptions parse_alloc_conf(std::string_view text) {
  TorchAllocatorOptions options;
  Pieces pieces(text);
  while (!pieces.at_end()) {
    const std::string name = pieces.word("the name of an option");
    pieces.expect(":", fmt::format("after {}", quoted(name)));
    read_option(name, pieces, options);
    if (!pieces.at_end()) pieces.expect(",", fmt::format("after the value of {}", name));
  }
  return options;
}

TorchAllocatorOptions decode_torch_options(const Decoder& allocator) {
  static constexpr std::array<std::string_view, 1> kVersions{kTorchAllocatorVersion};
  static_cast<void>(allocator.optional_word("version", kVersions, kTorchAllocatorVersion));
  TorchAllocatorOptions options;
  if (const auto conf = allocator.maybe<std::string>("conf")) {
    options = at_key(allocator, "conf", [&] { return parse_alloc_conf(*conf); });
  }
  if (const auto limit = allocator.maybe<Bytes>(
          "max_split_size", above(static_cast<double>(kSmallestSplitLimitMb * kMiB.count)))) {
    options.max_split_size = limit->count;
  }
  constexpr std::string_view kRoundup = "roundup_power2_divisions";
  const Value* given = allocator.value().find(kRoundup);
  if (given != nullptr && given->is_mapping()) {
    options.roundup_power2_divisions = decode_intervals(allocator.optional_child(kRoundup));
  } else if (const auto text = allocator.maybe<std::string>(kRoundup)) {
    options.roundup_power2_divisions =
        at_key(allocator, kRoundup, [&] { return parse_roundup_divisions(*text); });
  }
  constexpr std::string_view kThreshold = "garbage_collection_threshold";
  if (const auto threshold = allocator.maybe<double>(kThreshold, between(0, 1))) {
    options.garbage_collection_threshold =
        at_key(allocator, kThreshold, [&] { return check_threshold(*threshold); });
  }
  options.expandable_segments =
      allocator.optional<bool>("expandable_segments", options.expandable_segments);
  if (const auto fraction =
          allocator.maybe<double>("memory_fraction", {.low = 0, .high = 1, .low_excluded = true})) {
    options.memory_fraction = fraction;
  }
  return options;
}

}  // namespace tidemark
