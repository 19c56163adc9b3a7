// The time of a matrix product by tiles and waves.
//
// Each multiprocessor works on one tile at a time; the last wave may be partly empty:
//   blocks = ceil(m / tile_m) * ceil(n / tile_n) * batch * splits
//   t = ceil(blocks / multiprocessors) * 2 tile_m tile_n (k / splits + prologue)
//       / (min(1, (tile_m tile_n / 128^2)^exponent) * peak / multiprocessors)
// A split of the reduction is as long as 32 elements at least; splitting writes and reads an fp32
// partial result per split. The fastest tile and split count, each no faster than its memory
// traffic.
#pragma once

#include <array>
#include <cstdint>

#include "hwprofiles/device_profile.hpp"

namespace tidemark {

struct TiledProduct {
  std::array<std::int64_t, 4> extent{};  // m, n, k, batch: each at least 1
  double peak = 0;                       // FLOP/s that full waves of large tiles reach
  int multiprocessors = 1;
  TileModel tile;
  double memory = 0;   // seconds of the operands' traffic
  double partial = 0;  // seconds in which one fp32 copy of the result is moved
  std::int64_t most_splits = 16;
  std::int64_t narrowest_tile = 1;  // fewest rows and columns of a tile
};

// Returns seconds. Not less where any extent is larger.
[[nodiscard]] double seconds_of(const TiledProduct& product);

}  // namespace tidemark
