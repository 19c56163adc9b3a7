// Decides which points of a search are simulated, and simulates them.
#pragma once

#include <string>
#include <vector>

#include "hwprofiles/figures.hpp"
#include "scenarios/studies/search/search.hpp"

namespace tidemark {

// The points of a sweep, as they were read.
struct SearchSpace {
  const Value& document;
  const std::vector<PointDocument>& points;
  const std::vector<std::vector<Figure>>& devices;  // by point; empty if it cannot be read
  const std::vector<std::string>& names;            // name of each point
};

// Fills the points of `found`, and those that are excluded, under its goal.
void explore(const SearchSpace& space, SearchResult& found, const Environment& environment,
             int threads, const SearchOptions& options, const PointsListener& listener);

}  // namespace tidemark
