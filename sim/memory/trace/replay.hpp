// Replays a trace of allocator calls through one of the allocators and reports the result of each
// call.
#pragma once

#include <optional>
#include <string>

#include "sim/memory/trace/replay_result.hpp"
#include "sim/memory/trace/trace_reader.hpp"

namespace tidemark {

// Rows go to `csv`, if given, in the trace's own columns: op, id, bytes, stream, the address (-1
// where there is none) and ReplayState. A failed allocation becomes `o`, and rows that would free
// or record it are left out. Throws UserError at the row: a free of an unknown or freed id, an
// allocation of a live one.
[[nodiscard]] ReplayResult replay_trace(const std::string& path, const ReplayOptions& options,
                                        WholeFile* csv = nullptr);

// Replays the trace of a snapshot (SnapshotReader) in the same way. A free that waited for streams
// is `f` in `csv`, where the program asks for it.
[[nodiscard]] ReplayResult replay_snapshot(const std::string& path, std::optional<int> device,
                                           const ReplayOptions& options, WholeFile* csv = nullptr);

}  // namespace tidemark
