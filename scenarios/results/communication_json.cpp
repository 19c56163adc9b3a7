#include "scenarios/results/communication_json.hpp"

#include <string>

#include <nlohmann/json.hpp>

#include "scenarios/results/result_document.hpp"

namespace tidemark {

nlohmann::ordered_json mesh_json(const Mesh& mesh) {
  nlohmann::ordered_json sizes = nlohmann::ordered_json::object();
  for (std::size_t d = 0; d < kSizedDimensions; ++d)
    sizes[std::string(name_of(static_cast<MeshDimension>(d)))] = mesh.sizes()[d];
  return sizes;
}

nlohmann::ordered_json communication_json(const PointResult& point) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Communication& used : point.communication) {
    list.push_back({{"group", name_of(used.group)},
                    {"kind", name_of(used.kind)},
                    {"ranks", ranks_of(used, point.mesh)},
                    {"count", used.count},
                    {"bytes", used.bytes.count},
                    {"seconds", seconds(used.busy)},
                    {"shared_seconds", seconds(used.shared)},
                    {"exposed_seconds", seconds(used.exposed)}});
  }
  return list;
}

nlohmann::ordered_json communicators_json(const PointResult& point) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Communicator& communicator : point.communicators)
    list.push_back({{"group", name_of(communicator.group)},
                    {"ranks", communicator.ranks},
                    {"bytes", communicator.bytes.count}});
  return list;
}

}  // namespace tidemark
