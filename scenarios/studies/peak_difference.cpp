#include "scenarios/studies/peak_difference.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>

#include "sim/result/role_labels.hpp"

namespace tidemark {
namespace peak_difference_detail {
namespace {

template <class Term>
void sort_by_difference(std::vector<Term>& terms) {
  std::stable_sort(terms.begin(), terms.end(), [](const Term& x, const Term& y) {
    const std::int64_t by = std::abs(x.difference().count);
    const std::int64_t than = std::abs(y.difference().count);
    return by != than ? by > than : std::max(x.a, x.b) > std::max(y.a, y.b);
  });
}

std::vector<TermPair<Bytes>> role_terms(const PointResult& a, const PointResult& b) {
  std::vector<TermPair<Bytes>> terms;
  for (const Role role : kStackOrder) {
    const auto r = static_cast<std::size_t>(role);
    const Bytes of_a = a.peak.by_role[r];
    const Bytes of_b = b.peak.by_role[r];
    if (of_a == Bytes(0) && of_b == Bytes(0)) continue;
    terms.push_back({std::string(label_of(role)), of_a, of_b});
  }
  return terms;
}

std::vector<TermPair<Bytes>> layer_terms(const PointResult& a, const PointResult& b) {
  std::map<std::string, TermPair<Bytes>> layers;
  for (const auto& [layer, bytes] : a.peak.by_layer)
    layers[pattern_of(layer)].a += bytes;
  for (const auto& [layer, bytes] : b.peak.by_layer)
    layers[pattern_of(layer)].b += bytes;
  std::vector<TermPair<Bytes>> terms;
  terms.reserve(layers.size());
  for (auto& [name, term] : layers)
    terms.push_back({name.empty() ? "(no layer)" : name, term.a, term.b});
  sort_by_difference(terms);
  return terms;
}

std::vector<TensorPair> tensor_terms(const PointResult& a, const PointResult& b) {
  std::map<std::tuple<Role, std::string, std::string, std::string>, TensorPair> groups;
  const auto group_of = [&](const LargestTensor& tensor) -> TensorPair& {
    LargestTensor alike = tensor;
    alike.tensor = name_in_layer(tensor);
    alike.layer = pattern_of(tensor.layer);
    TensorPair& group = groups[{alike.role, alike.layer, alike.tensor, alike.op}];
    group.tensor = std::move(alike);
    return group;
  };
  for (const LargestTensor& tensor : a.peak.largest) {
    TensorPair& group = group_of(tensor);
    ++group.count_a;
    group.a += tensor.bytes;
  }
  for (const LargestTensor& tensor : b.peak.largest) {
    TensorPair& group = group_of(tensor);
    ++group.count_b;
    group.b += tensor.bytes;
  }
  std::vector<TensorPair> terms;
  terms.reserve(groups.size());
  for (auto& [key, group] : groups)
    terms.push_back(std::move(group));
  sort_by_difference(terms);
  return terms;
}

Bytes live_of(const PointResult& point) {
  return sum_of(point.peak.by_role);
}

}  // namespace
}  // namespace peak_difference_detail

PeakDifference peak_difference(const DetailedPoint& a, const DetailedPoint& b) {
  const RunResult& of_a = a.result.run;
  const RunResult& of_b = b.result.run;
  const DeviceTerms on_a = device_terms(a.result, a.detail);
  const DeviceTerms on_b = device_terms(b.result, b.detail);
  PeakDifference d{.live = {"live at the peak", peak_difference_detail::live_of(a.result),
                            peak_difference_detail::live_of(b.result)},
                   .device_used = {"device memory used", on_a.device(), on_b.device()},
                   .step = {"step", of_a.step, of_b.step},
                   .roles = peak_difference_detail::role_terms(a.result, b.result),
                   .layers = peak_difference_detail::layer_terms(a.result, b.result),
                   .tensors = peak_difference_detail::tensor_terms(a.result, b.result)};
  d.device = {{"live at the peak", on_a.live, on_b.live},
              {"rounding", on_a.rounding, on_b.rounding},
              {"cached", on_a.cached, on_b.cached},
              {"reserved at other times", on_a.other_times, on_b.other_times},
              {"CUDA context", on_a.context, on_b.context}};
  for (std::size_t p = 0; p < kPhases; ++p) {
    const std::string name(name_of(static_cast<Phase>(p)));
    d.phase_peaks.push_back({name, of_a.phase_live[p].bytes, of_b.phase_live[p].bytes});
    d.phase_times.push_back({name, of_a.phase[p], of_b.phase[p]});
  }
  d.waits = {{"recomputation", of_a.recompute, of_b.recompute},
             {"waits for copies", of_a.exposed_transfer, of_b.exposed_transfer},
             {"waits for collectives", of_a.exposed_communication, of_b.exposed_communication},
             {"waits for the host", of_a.host_bound, of_b.host_bound}};
  for (std::size_t s = 0; s < kStreams; ++s) {
    d.streams.push_back({std::string(name_of(static_cast<Stream>(s))), of_a.busy[s], of_b.busy[s]});
  }
  const auto is_nothing = [](const TermPair<Duration>& term) {
    return term.a == Duration(0) && term.b == Duration(0);
  };
  std::erase_if(d.waits, is_nothing);
  std::erase_if(d.streams, is_nothing);
  return d;
}

}  // namespace tidemark
