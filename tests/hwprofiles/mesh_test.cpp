// The layout of ranks, and the links that a group communicates over.
#include "hwprofiles/mesh.hpp"

#include <algorithm>

#include <doctest/doctest.h>

#include "graph/core/errors.hpp"
#include "hwprofiles/interconnect_model.hpp"

namespace tidemark::mesh_test {
namespace {

constexpr auto kInside = LinkKind::kNvlink;

// 2 tensor x 4 data x 3 pipeline ranks on nodes of 4 GPUs: ranks 0 to 7 are one pipeline stage.
Mesh three_stages() {
  return {{4, 2, 2, 1, 1, 3}, 4, kInside};
}

DeviceProfile device() {
  DeviceProfile profile{};
  profile.links.nvlink = {400e9};
  profile.links.collective = {.floor = std::chrono::microseconds(30),
                              .ramp = 10,
                              .bandwidth = {200e9},
                              .in_switch = {300e9},
                              .in_switch_ranks = 4};
  profile.links.network = {.bandwidth = {50e9}, .latency = std::chrono::microseconds(5)};
  profile.host.gpus = 4;
  return profile;
}

Duration time_of(const Mesh& mesh, CollectiveKind kind, MeshDimension group, std::int64_t bytes) {
  return InterconnectModel(device(), mesh)
      .duration({.kind = kind, .group = group, .bytes = Bytes(bytes)});
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("ranks are the product of the dimensions that divide the run") {
    CHECK(Mesh().ranks() == 1);
    CHECK(three_stages().ranks() == 24);  // shard lies within data
    CHECK_THROWS_AS(Mesh({4, 3, 1, 1, 1, 1}, 4, kInside), InternalError);
    CHECK_THROWS_AS(Mesh({4, 1, 0, 1, 1, 1}, 4, kInside), InternalError);
  }

  TEST_CASE("the fullest host has as many ranks as it has GPUs, or all of them") {
    CHECK(Mesh().ranks_on_host() == 1);
    CHECK(Mesh({3, 1, 1, 1, 1, 1}, 4, kInside).ranks_on_host() == 3);
    CHECK(Mesh({6, 1, 1, 1, 1, 1}, 4, kInside).ranks_on_host() == 4);
    CHECK(Mesh({2, 1, 4, 1, 1, 1}, 4, kInside).ranks_on_host() == 4);
  }

  TEST_CASE("neighbours in a group lie on as many nodes as the most scattered of them") {
    for (const int tensor : {1, 2, 4}) {
      for (const int node : {1, 2, 4, 6, 8}) {
        if (node % tensor != 0 && tensor % node != 0) continue;
        const Mesh mesh({24, 24, tensor, 1, 1, 1}, node, kInside);
        for (const int ranks : {1, 2, 3, 4, 6, 8, 12, 24}) {
          int most = 1;
          for (int first = 0; first < 24; first += ranks) {
            const int begin = first * tensor / node;
            int nodes = 1;
            for (int rank = first + 1, last = begin; rank < first + ranks; ++rank) {
              nodes += rank * tensor / node == last ? 0 : 1;
              last = rank * tensor / node;
            }
            most = std::max(most, nodes);
          }
          CAPTURE(tensor);
          CAPTURE(node);
          CAPTURE(ranks);
          const MeshGroup group = mesh.neighbours(MeshDimension::kShard, ranks);
          CHECK(group.size == ranks);
          CHECK(group.nodes == most);
          CHECK((group.link == LinkKind::kNetwork) == (group.nodes > 1));
          if (node % (ranks * tensor) == 0) CHECK(group.nodes == 1);
        }
      }
    }
  }

  TEST_CASE("the ranks that share experts are those of a shard group that have the same ones") {
    for (const int data : {1, 2, 4, 8}) {
      for (const int context : {1, 2, 4}) {
        for (int expert = 1; expert <= data; expert *= 2) {
          for (int shard = 1; shard <= data * context; shard *= 2) {
            const Mesh mesh({data, shard, 1, context, expert, 1}, 8, kInside);
            int same = 0;
            int in_group = 0;
            for (int replica = 0; replica < data * context; ++replica) {
              const bool has_them = replica / context % expert == 0;  // those of replica 0
              same += has_them ? 1 : 0;
              in_group += has_them && replica < shard ? 1 : 0;
            }
            CHECK(mesh.expert_replicas() == same);
            CHECK(mesh.expert_shard() == in_group);
          }
        }
      }
    }
  }

  TEST_CASE("a group spans as many nodes as its ranks lie on") {
    const Mesh mesh = three_stages();
    // Tensor groups are {0, 1}, {2, 3}, ...: on one node.
    CHECK(mesh.group(MeshDimension::kTensor).nodes == 1);
    CHECK(mesh.group(MeshDimension::kTensor).link == LinkKind::kNvlink);
    // Data groups are {0, 2, 4, 6}: two ranks on each of two nodes. Of them {0, 2} share a shard.
    CHECK(mesh.group(MeshDimension::kData).nodes == 2);
    CHECK(mesh.group(MeshDimension::kData).link == LinkKind::kNetwork);
    CHECK(mesh.group(MeshDimension::kShard).nodes == 1);
    // Stages lie 8 ranks apart.
    CHECK(mesh.group(MeshDimension::kPipeline).size == 3);
    CHECK(mesh.group(MeshDimension::kPipeline).nodes == 3);
    CHECK(mesh.group(MeshDimension::kExpert).size == 1);
    CHECK(mesh.text() != Mesh().text());
  }

  TEST_CASE("a collective takes its floor, its ramp and what a ring sends") {
    const Mesh two = data_mesh(2, device());
    // 30 us + 10 ns * sqrt(10^8) + 2 (1/2) 10^8 B / 200 GB/s = 30 + 100 + 500 us.
    CHECK(time_of(two, CollectiveKind::kAllReduce, MeshDimension::kData, 100'000'000) ==
          std::chrono::microseconds(630));
    // A gather sends half of it.
    CHECK(time_of(two, CollectiveKind::kAllGather, MeshDimension::kData, 100'000'000) ==
          std::chrono::microseconds(380));
    // Four GPUs add up in the switch: 2 (3/4) 10^8 B / 300 GB/s.
    CHECK(time_of(data_mesh(4, device()), CollectiveKind::kAllReduce, MeshDimension::kData,
                  100'000'000) == std::chrono::microseconds(630));
    // A send from one GPU to another: 10^8 B / (0.65 * 400 GB/s).
    CHECK(time_of(two, CollectiveKind::kSend, MeshDimension::kData, 100'000'000).count() ==
          130'000 + 384'615);
    CHECK(time_of(two, CollectiveKind::kReceive, MeshDimension::kData, 100'000'000).count() == 0);
    CHECK(time_of(two, CollectiveKind::kAllReduce, MeshDimension::kTensor, 100).count() == 0);
  }

  TEST_CASE(
      "between nodes the slower of network and NVLink counts, and two hops for each doubling") {
    const Mesh mesh = data_mesh(16, device());
    REQUIRE(mesh.group(MeshDimension::kData).nodes == 4);
    // floor 30 + 4 hops of 45 us; ramp (10 + 20) ns * 10^4; network 2 (3/4) 10^8 B / 4 adapters of
    // 45 GB/s = 833.3 us; inside 2 (15/16) 10^8 B / 300 GB/s = 625 us.
    CHECK(time_of(mesh, CollectiveKind::kAllReduce, MeshDimension::kData, 100'000'000).count() ==
          30'000 + 180'000 + 300'000 + 833'333);
    DeviceProfile alone = device();
    alone.links.network = {};
    const InterconnectModel model(alone, mesh);
    CHECK_THROWS_AS(static_cast<void>(model.duration({.bytes = Bytes(1)})), UserError);
  }

  TEST_CASE("without NVLink collectives go through the host's memory") {
    DeviceProfile pcie = device();
    pcie.links.nvlink = {};
    pcie.links.host_to_device = {.alone = {50e9}, .duplex = {40e9}};
    pcie.links.device_to_host = {.alone = {50e9}, .duplex = {30e9}};
    const Mesh mesh = data_mesh(2, pcie);
    CHECK(mesh.group(MeshDimension::kData).link == LinkKind::kPcie);
    // A bandwidth that the profile states is taken at its word.
    const Duration stated = InterconnectModel(pcie, mesh).duration({.bytes = Bytes(100'000'000)});
    pcie.links.collective.bandwidth = {};
    // 30 us + 10 ns * 10^4 + 10^8 B / 30 GB/s.
    CHECK(InterconnectModel(pcie, mesh).duration({.bytes = Bytes(100'000'000)}).count() ==
          130'000 + 3'333'333);
    CHECK(stated < InterconnectModel(pcie, mesh).duration({.bytes = Bytes(100'000'000)}));
    // Four share the host's memory: 2 (3/4) 10^8 B / 15 GB/s, or half the time where they reach
    // each other.
    const Mesh four = data_mesh(4, pcie);
    CHECK(InterconnectModel(pcie, four).duration({.bytes = Bytes(100'000'000)}).count() ==
          130'000 + 10'000'000);
    // So do two pairs, but not the pairs of two hosts.
    const Mesh pairs({2, 1, 2, 1, 1, 1}, 4, LinkKind::kPcie);
    CHECK(InterconnectModel(pcie, pairs).duration({.bytes = Bytes(100'000'000)}).count() ==
          130'000 + 6'666'667);
    const Mesh apart({2, 1, 2, 1, 1, 1}, 2, LinkKind::kPcie);
    CHECK(InterconnectModel(pcie, apart)
              .duration({.group = MeshDimension::kTensor, .bytes = Bytes(100'000'000)})
              .count() == 130'000 + 3'333'333);
    pcie.links.peer_to_peer = true;
    CHECK(InterconnectModel(pcie, four).duration({.bytes = Bytes(100'000'000)}).count() ==
          130'000 + 5'000'000);
  }

  TEST_CASE("a network of latency 0 carries bytes over bandwidth, and nothing else") {
    // One GPU on each of 4 nodes, 50 GB/s each: 3/4 of the bytes, twice for an all-reduce.
    DeviceProfile ideal = device();
    ideal.links.network.latency = Duration(0);
    const Mesh apart({4, 4, 1, 1, 1, 1}, 1, kInside);
    const auto time = [&](const Mesh& mesh, CollectiveKind kind, std::int64_t bytes) {
      return InterconnectModel(ideal, mesh)
          .duration({.kind = kind, .group = MeshDimension::kShard, .bytes = Bytes(bytes)})
          .count();
    };
    for (const std::int64_t bytes : {std::int64_t{4000}, std::int64_t{400'000'000}}) {
      CAPTURE(bytes);
      CHECK(time(apart, CollectiveKind::kAllReduce, bytes) == bytes * 3 / 100);
      CHECK(time(apart, CollectiveKind::kAllGather, bytes) == bytes * 3 / 200);
      CHECK(time(apart, CollectiveKind::kSend, bytes) == bytes / 50);
    }
    // 2 nodes of 2: GPUs of a node exchange too, which costs what was measured there. Half of the
    // bytes go through the 2 adapters of a node: 400e6 / 2 / 2 / 50e9 = 2 ms; 3/4 of them inside,
    // 400e6 * 3/4 / 200e9 = 1.5 ms; 30 us of floor and 10 ns for each of the 20,000.
    const Mesh pairs({4, 4, 1, 1, 1, 1}, 2, kInside);
    CHECK(time(pairs, CollectiveKind::kAllGather, 400'000'000) == 2'000'000 + 30'000 + 200'000);
  }
}

}  // namespace tidemark::mesh_test
