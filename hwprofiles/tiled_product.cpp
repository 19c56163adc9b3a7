#include "hwprofiles/tiled_product.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tidemark {
namespace tiled_product_detail {
namespace {

struct Tile {
  std::int64_t m;
  std::int64_t n;
};

// Output tiles of cuBLAS and CUTLASS kernels.
constexpr std::array<Tile, 8> kTiles = {
    {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}, {64, 32}, {32, 64}}};
constexpr std::int64_t kShortestSplit = 32;  // elements of the reduction; fewer are padded
constexpr double kFullTile = 128.0 * 128.0;  // area that runs at full rate

// Doubles hold integers exactly up to 2^53, far above any extent.
double real(std::int64_t count) {
  return static_cast<double>(count);
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace
}  // namespace tiled_product_detail

double seconds_of(const TiledProduct& product) {
  const auto [m, n, k, batch] = product.extent;
  double fastest = std::numeric_limits<double>::infinity();
  for (const tiled_product_detail::Tile tile : tiled_product_detail::kTiles) {
    if (std::min(tile.m, tile.n) < product.narrowest_tile) continue;
    const double area = tiled_product_detail::real(tile.m) * tiled_product_detail::real(tile.n);
    const double tile_rate = product.peak / product.multiprocessors *
                             std::min(1.0, std::pow(area / tiled_product_detail::kFullTile,
                                                    product.tile.small_tile_exponent));
    for (std::int64_t splits = 1; splits <= product.most_splits; splits *= 2) {
      // A reduction that is split further takes as long in more blocks.
      if (splits > 1 && k <= tiled_product_detail::kShortestSplit * (splits / 2)) break;
      const double length =
          splits > 1 ? std::max(tiled_product_detail::real(k) / tiled_product_detail::real(splits),
                                tiled_product_detail::real(tiled_product_detail::kShortestSplit))
                     : tiled_product_detail::real(k);
      const std::int64_t blocks = tiled_product_detail::ceil_div(m, tile.m) *
                                  tiled_product_detail::ceil_div(n, tile.n) * batch * splits;
      const double waves = tiled_product_detail::real(
          tiled_product_detail::ceil_div(blocks, product.multiprocessors));
      const double compute = waves * 2 * area * (length + product.tile.prologue) / tile_rate;
      const double traffic =
          product.memory +
          (splits > 1 ? 2 * tiled_product_detail::real(splits) * product.partial : 0);
      fastest = std::min(fastest, std::max(compute, traffic));
    }
  }
  return fastest;
}

}  // namespace tidemark
