#include "sim/memory/torch/torch_options.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/scalar_text.hpp"
#include "sim/memory/torch/roundup_intervals.hpp"

namespace tidemark {
namespace torch_options_detail {
namespace {

// Limits from CUDAAllocatorConfig of PyTorch 2.4.
constexpr std::int64_t kMostRegisterThreads = 128;

// Returns the text without blanks, in pieces that end at , : [ or ], which are pieces of their own.
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
  // Reads a word: anything but punctuation.
  std::string word(std::string_view what) {
    const bool punctuation = at_end() || pieces_[at_] == "," || pieces_[at_] == ":" ||
                             pieces_[at_] == "[" || pieces_[at_] == "]";
    if (punctuation) refuse(fmt::format("expected {}, found {}", what, found()));
    return pieces_[at_++];
  }

 private:
  [[nodiscard]] std::string found() const {
    return at_end() ? std::string("the end") : quoted_excerpt(pieces_[at_]);
  }

  std::vector<std::string> pieces_;
  std::size_t at_ = 0;
};

std::int64_t integer(const std::string& word, std::string_view option) {
  std::int64_t value = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error == std::errc::result_out_of_range) {
    refuse(fmt::format("{}: {} is too large", option, quoted_excerpt(word)));
  }
  if (error != std::errc() || stop != end || value < 0) {
    refuse(fmt::format("{}: expected a whole number, found {}", option, quoted_excerpt(word)));
  }
  return value;
}

double number(const std::string& word, std::string_view option) {
  double value = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc() || stop != end) {
    refuse(fmt::format("{}: expected a number, found {}", option, quoted_excerpt(word)));
  }
  return value;
}

bool true_or_false(const std::string& word, std::string_view option) {
  if (word != "True" && word != "False") {
    refuse(fmt::format("{}: expected True or False, found {}", option, quoted_excerpt(word)));
  }
  return word == "True";
}

RoundupDivisions read_divisions(Pieces& pieces) {
  constexpr std::string_view kOption = "roundup_power2_divisions";
  if (!pieces.skip("[")) {
    RoundupDivisions divisions{};
    const std::int64_t value = integer(pieces.word("divisions"), kOption);
    check_roundup_division(value, false);
    divisions.fill(value);
    return divisions;
  }
  RoundupIntervals intervals;
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
  refuse(fmt::format("unknown option {}{}", quoted_excerpt(name), did_you_mean(name, known)));
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
    options.max_split_size = mebibytes > kNoSplitLimit / kMiB ? kNoSplitLimit : mebibytes * kMiB;
  } else if (name == "garbage_collection_threshold") {
    options.garbage_collection_threshold = check_collection_threshold(number(value(), name));
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
      refuse(fmt::format("backend: expected native, found {}", quoted_excerpt(backend)));
    }
  } else {
    refuse_option(name);
  }
}

}  // namespace
}  // namespace torch_options_detail

RoundupDivisions parse_roundup_divisions(std::string_view text) {
  torch_options_detail::Pieces pieces(text);
  const RoundupDivisions divisions = torch_options_detail::read_divisions(pieces);
  if (!pieces.at_end()) pieces.expect("the end", "after the divisions");
  return divisions;
}

TorchAllocatorOptions parse_alloc_conf(std::string_view text) {
  TorchAllocatorOptions options;
  torch_options_detail::Pieces pieces(text);
  while (!pieces.at_end()) {
    const std::string name = pieces.word("the name of an option");
    pieces.expect(":", fmt::format("after {}", quoted_excerpt(name)));
    torch_options_detail::read_option(name, pieces, options);
    if (!pieces.at_end()) pieces.expect(",", fmt::format("after the value of {}", name));
  }
  return options;
}

}  // namespace tidemark
