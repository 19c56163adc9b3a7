// Memory of NCCL's communicators, after NVIDIA/nccl#1685: 12 MiB for a channel that is connected in
// both directions.
#include "hwprofiles/communicators.hpp"

#include <map>
#include <string>

#include <doctest/doctest.h>

namespace tidemark::communicators_test {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

DeviceProfile device_with(int channels) {
  DeviceProfile device;
  device.framework.communication_buffers = Bytes(1480 * kMiB);
  device.links.collective.channels = channels;
  return device;
}

// Mesh::Sizes in the order of MeshDimension.
Mesh mesh(const std::map<MeshDimension, int>& sizes) {
  Mesh::Sizes all;
  all.fill(1);
  for (const auto& [dimension, ranks] : sizes)
    all[static_cast<std::size_t>(dimension)] = ranks;
  return Mesh(all, 8, LinkKind::kNvlink);
}

std::string text_of(const std::vector<Communicator>& communicators) {
  std::string text;
  for (const Communicator& communicator : communicators) {
    text += std::string(name_of(communicator.group)) + " " +
            std::to_string(communicator.bytes.count / kMiB) + "; ";
  }
  return text;
}

TEST_SUITE("unit") {
  TEST_CASE("each process group is a communicator with buffers of its own") {
    using enum MeshDimension;
    struct Row {
      std::map<MeshDimension, int> sizes;
      std::string expected;  // MiB
    };
    for (const Row& row : {
             Row{{}, ""},
             // The first is what was measured, whichever it is.
             Row{{{kData, 8}}, "data 1480; "},
             Row{{{kTensor, 8}}, "tensor 1480; "},
             Row{{{kData, 8}, {kShard, 8}}, "data 1480; "},
             // 16 channels with a peer on either side.
             Row{{{kData, 16}, {kShard, 8}}, "shard 1480; replicate 192; "},
             Row{{{kData, 4}, {kTensor, 8}}, "data 1480; tensor 192; "},
             // Messages take two channels for each neighbour: a pipeline of two stages has one.
             Row{{{kTensor, 2}, {kPipeline, 2}}, "tensor 1480; pipeline 24; "},
             Row{{{kTensor, 2}, {kPipeline, 16}}, "tensor 1480; pipeline 48; "},
             // Every rank of an expert group sends to seven others.
             // Pairs of replicas with the same experts add up their gradients in a ring.
             Row{{{kData, 16}, {kExpert, 8}}, "data 1480; expert 168; data 192; "},
             // Groups of the same ranks have communicators of their own.
             Row{{{kData, 8}, {kExpert, 8}}, "data 1480; expert 168; "},
             Row{{{kContext, 4}}, "data 1480; context 48; "},
             Row{{{kData, 16}, {kShard, 8}, {kExpert, 8}},
                 "shard 1480; replicate 192; expert 168; "},
             Row{{{kData, 16}, {kShard, 8}, {kExpert, 4}},
                 "shard 1480; replicate 192; expert 72; shard 192; "},
             Row{{{kData, 2}, {kContext, 4}}, "data 1480; context 48; "},
         }) {
      CAPTURE(row.expected);
      CHECK(text_of(communicators_of(mesh(row.sizes), device_with(16))) == row.expected);
    }
  }

  TEST_CASE("neighbours that backward gathers among have a communicator") {
    const Mesh sizes = mesh({{MeshDimension::kData, 32}, {MeshDimension::kShard, 32}});
    const std::vector<Communicator> found = communicators_of(sizes, device_with(16), 8);
    CHECK(text_of(found) == "data 1480; data 192; ");
    CHECK(found[0].ranks == 32);
    CHECK(found[1].ranks == 8);
    CHECK(communication_buffers(sizes, device_with(16), 8).count == (1480 + 192) * kMiB);
  }

  TEST_CASE("further communicators take nothing where their channels are not known") {
    const Mesh sizes = mesh({{MeshDimension::kData, 4}, {MeshDimension::kTensor, 8}});
    CHECK(communication_buffers(sizes, device_with(0)).count == 1480 * kMiB);
    DeviceProfile unknown = device_with(16);
    unknown.framework.communication_buffers = Bytes(0);
    CHECK(communication_buffers(sizes, unknown).count == 0);
  }
}

}  // namespace
}  // namespace tidemark::communicators_test
