#include "scenarios/results/load_json.hpp"

#include <nlohmann/json.hpp>

namespace tidemark {

nlohmann::ordered_json to_json(const LoadFigures& load) {
  return {{"device_peak", load.device_peak.count},
          {"device_after", load.device_after.count},
          {"host_peak", load.host_peak.count},
          {"processes", load.processes}};
}

LoadFigures load_from_json(const nlohmann::ordered_json& json) {
  return {.device_peak = Bytes(json.at("device_peak").get<std::int64_t>()),
          .device_after = Bytes(json.at("device_after").get<std::int64_t>()),
          .host_peak = Bytes(json.at("host_peak").get<std::int64_t>()),
          .processes = json.at("processes")};
}

}  // namespace tidemark
