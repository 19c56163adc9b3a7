// `training.turns`: a step that trains several networks in turn, as a GAN's discriminator and its
// generator. Each turn is a forward, a backward and an update of its own.
//
//   training:
//     optimizer: adam
//     turns:
//       - {train: [disc], model: {onnx: disc_step.onnx, detach: [/gen/Tanh_output_0]}}
//       - {train: [gen], model: {onnx: gen_step.onnx}, policies: [freeze: {layers: [disc]}]}
//
// A turn takes the scenario's keys and lays its own over them: `model`, those of `training` that
// are about one loss and one optimizer (kTurnKeys), and `policies` that rewrite its model, which
// are added. `train` names the parameters of its optimizer by patterns (policies/adapt).
#pragma once

#include "graph/core/document.hpp"
#include "scenarios/read/scenario.hpp"

namespace tidemark {

// Fills `result.turns` from the scenario's document. Throws UserError: fewer than two turns, keys
// that a turn does not have, and what no step of several turns can be simulated with.
void decode_turns(const Value& document, const Environment& environment, Scenario& result);

}  // namespace tidemark
