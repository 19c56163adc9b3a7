// Sweeps and searches: points per second, what points share, and what is left of a killed sweep.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/figures.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/studies/search/search.hpp"
#include "scenarios/studies/simulate_points.hpp"

namespace tidemark::bench {
namespace {

constexpr std::string_view kSweep = R"(
version: 1
name: rate
model: gpt2
hardware: a100-sxm-40gb
training: {steps: 2}
allocator: torch
sweep:
  matrix:
    training.micro_batch: [1, 2, 3, 4, 5, 6, 7, 8]
    training.sequence: [128, 256, 384, 512, 640, 768, 896, 1024]
    policies: [[], [{checkpoint_every: {period: 1}}]]
)";

// Simulates a sweep as `tidemark sweep` does on one thread: each point is read, built, compiled,
// verified and run, and followed until the steps repeat. Returns how many there are.
std::size_t simulate_sweep(const Value& document) {
  const Environment environment = default_environment({});
  return simulate_points(
             document, environment, 1,
             {.smallest_capacity_of_fitting = false, .convergence_limit = kConvergenceLimit})
      .size();
}

// Points per second of a sweep on one thread.
double sweep_rate(const std::string& text) {
  const Value document = parse_document(text, "bench.yaml");
  std::size_t points = 0;
  const double seconds = median_seconds(5, [&] { points = simulate_sweep(document); });
  return static_cast<double>(points) / seconds;
}

// Returns kSweep with `from` replaced.
std::string changed(std::string_view from, std::string_view to) {
  std::string text(kSweep);
  return text.replace(text.find(from), from.size(), to);
}

constexpr std::string_view kEightDevices =
    "hardware: [a100-sxm-80gb, a100-sxm-40gb, h100-sxm-80gb, h200-sxm-141gb, v100-sxm-32gb, "
    "l40s-48gb, rtx-3090-24gb, rtx-4090-24gb]";
constexpr std::string_view kEightCapacities =
    "hardware.hbm.capacity: [20GiB, 24GiB, 32GiB, 40GiB, 48GiB, 64GiB, 80GiB, 96GiB]";

// Time of a sweep with one more key of eight values, in times of that without it; the median of
// pairs.
double times_of_one(std::string_view key) {
  std::string text(kSweep);
  text.insert(text.find("    training.sequence"), fmt::format("    {}\n", key));
  const Value one = parse_document(std::string(kSweep), "bench.yaml");
  const Value eight = parse_document(text, "bench.yaml");
  std::array<double, 5> times{};
  for (double& time : times) {
    const double alone = median_seconds(1, [&] { static_cast<void>(simulate_sweep(one)); });
    time = median_seconds(1, [&] { static_cast<void>(simulate_sweep(eight)); }) / alone;
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

constexpr std::string_view kSearch = R"(
version: 1
name: search
model: gpt2-xl
hardware: a100-sxm-80gb
training: {sequence: 1024}
sweep:
  matrix:
    hardware: [v100-sxm-32gb, h100-sxm-80gb]
    training.micro_batch: {from: 1, to: 96}
    policies: [[], [checkpoint_every: {period: 1}], [offload_optimizer]]
)";

struct SearchFigures {
  double share = 0;    // of all points, those that are simulated
  double seconds = 0;  // on one thread
};

SearchFigures search_figures(const Environment& environment, bool every_point) {
  const Value document = parse_document(std::string(kSearch), "bench.yaml");
  SearchFigures figures;
  figures.seconds = median_seconds(1, [&] {
    const SearchResult found = search(document, environment, 1,
                                      {.simulation = {.smallest_capacity_of_fitting = false,
                                                      .convergence_limit = kConvergenceLimit},
                                       .every_point = every_point});
    figures.share = static_cast<double>(found.points.size()) / static_cast<double>(found.space());
  });
  return figures;
}

// 10,080 points of three models, four devices and two allocators.
constexpr std::string_view kMixed = R"(
version: 1
name: mixed
model: gpt2
hardware: a100-sxm-40gb
sweep:
  matrix:
    model: [gpt2, bert-base, llama-3.2-1b]
    hardware: [v100-sxm-32gb, a100-sxm-40gb, a100-sxm-80gb, h100-sxm-80gb]
    allocator: [ideal, torch]
    policies: [[], [{checkpoint_every: {period: 1}}], [offload_optimizer]]
    training.micro_batch: {from: 1, to: 20}
    training.sequence: [64, 128, 192, 256, 320, 384, 512]
)";

// A folder that is removed at the end.
class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() / fmt::format("tidemark-bench-{}", getpid())) {
    std::filesystem::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }

  [[nodiscard]] std::string path(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

struct Ended {
  bool well = false;
  double seconds = 0;
  double megabytes = 0;  // most that was resident
};

// Runs `tidemark sweep FILE -o FOLDER -j THREADS`, and kills it after `delay` unless that is 0.
Ended run_sweep(const std::string& file, const std::string& folder, int threads,
                std::chrono::microseconds delay = {}) {
  const std::string count = std::to_string(threads);
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    execl(TIDEMARK_BINARY, TIDEMARK_BINARY, "sweep", file.c_str(), "-o", folder.c_str(), "-j",
          count.c_str(), "--resume", nullptr);
    _exit(98);
  }
  if (delay.count() > 0) {
    std::this_thread::sleep_for(delay);
    kill(child, SIGKILL);
  }
  int status = 0;
  rusage used{};
  if (child < 0 || wait4(child, &status, 0, &used) != child) return {};
  return {
      .well = WIFEXITED(status) && WEXITSTATUS(status) == 0,
      .seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
      .megabytes = static_cast<double>(used.ru_maxrss) / 1024};
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Kills a sweep at `instants` and resumes it. Returns how often its results are those of a sweep
// that nobody disturbed, byte for byte.
int equal_after_kills(const Folder& folder, int instants) {
  const std::string file = folder.path("killed.yaml");
  std::ofstream(file) << kSweep;
  const std::string whole = folder.path("whole");
  const Ended undisturbed = run_sweep(file, whole, 2);
  if (!undisturbed.well) return 0;
  std::mt19937_64 random(60);
  int equal = 0;
  for (int i = 0; i < instants; ++i) {
    const std::string killed = folder.path(fmt::format("killed-{}", i));
    const double part = std::uniform_real_distribution<double>(0, 1)(random);
    static_cast<void>(run_sweep(
        file, killed, 2,
        std::chrono::microseconds(1 +
                                  static_cast<std::int64_t>(part * undisturbed.seconds * 1e6))));
    const bool well = run_sweep(file, killed, 2).well;
    const auto same = [&](const char* name) {
      const std::string expected = read_file(whole + name);
      return !expected.empty() && expected == read_file(killed + name);
    };
    equal += well && same("/results.json") && same("/results.csv") ? 1 : 0;
    std::filesystem::remove_all(killed);
  }
  return equal;
}

void add_program_figures(std::vector<Figure>& figures) {
  if (access(TIDEMARK_BINARY, X_OK) != 0) return;
  const Folder folder;
  const std::string file = folder.path("mixed.yaml");
  std::ofstream(file) << kMixed;
  std::array<Ended, 2> ended;  // on one thread and on two
  for (std::size_t i = 0; i < ended.size(); ++i) {
    const std::string into = folder.path(fmt::format("mixed-{}", i));
    ended[i] = run_sweep(file, into, static_cast<int>(i) + 1);
    if (!ended[i].well) return;
    std::filesystem::remove_all(into);
  }
  figures.push_back({.name = "sweep.mixed_10080_points",
                     .value = ended[1].seconds,
                     .unit = "s",
                     .required = "< 30"});
  figures.push_back({.name = "sweep.mixed_10080_points_memory",
                     .value = ended[1].megabytes,
                     .unit = "MiB",
                     .required = "< 400"});
  figures.push_back({.name = "sweep.two_threads",
                     .value = ended[0].seconds / ended[1].seconds,
                     .unit = "times one",
                     .required = ">= 1.8"});
  figures.push_back({.name = "sweep.equal_of_60_kills",
                     .value = static_cast<double>(equal_after_kills(folder, 60)),
                     .unit = "sweeps",
                     .required = ">= 60"});
}

}  // namespace

std::vector<Figure> sweep_figures() {
  const Environment environment = default_environment({});
  std::vector<Figure> figures;
  const SearchFigures few = search_figures(environment, false);
  const SearchFigures all = search_figures(environment, true);
  figures.push_back({.name = "search.gpt2_xl_points_per_simulation",
                     .value = 1 / few.share,
                     .unit = "points",
                     .required = ">= 10"});
  figures.push_back({.name = "search.gpt2_xl_times_faster",
                     .value = all.seconds / few.seconds,
                     .unit = "times that of every point"});
  for (const std::string_view allocator : {"ideal", "torch"}) {
    figures.push_back({.name = fmt::format("sweep.gpt2_{}", allocator),
                       .value = sweep_rate(changed("torch", allocator)),
                       .unit = "points/s",
                       .required = allocator == "ideal" ? ">= 800" : ">= 550"});
  }
  figures.push_back({.name = "sweep.llama_2_7b_torch",
                     .value = sweep_rate(changed("gpt2", "llama-2-7b")),
                     .unit = "points/s",
                     .required = ">= 90"});
  figures.push_back({.name = "sweep.eight_devices",
                     .value = times_of_one(kEightDevices),
                     .unit = "times one",
                     .required = "<= 1.5"});
  figures.push_back({.name = "sweep.eight_capacities",
                     .value = times_of_one(kEightCapacities),
                     .unit = "times one",
                     .required = "<= 1.3"});
  add_program_figures(figures);
  return figures;
}

}  // namespace tidemark::bench
