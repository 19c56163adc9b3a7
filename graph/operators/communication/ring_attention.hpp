// Attention of a part of the positions to all of them, whose keys and values go around a ring of
// context ranks (TransformerEngine, context_parallel.py, cp_comm_type p2p).
//
//   context  [ send K,V 0 -> 1 ][ send 1 -> 2 ]
//   compute  [ attend to 0     ][ attend to 1 ][ attend to 2 ] [ correct ]
//
// K and V travel as one tensor. Forward holds the buffers of all steps until it returns: keys and
// values of the whole sequence; autograd keeps q, the last of them, the result and one fp32 per
// row. Backward has two buffers of K, V and their gradients, which travel together:
//
//   send      K,V    K,V and dK,dV    ...    dK,dV       2 (ranks - 1) times K,V in all
//   attend     0           1          ...   ranks - 1
#pragma once

#include "graph/operators/family.hpp"

namespace tidemark {

// q, k, v [batch, heads, length of this rank, width]. The family is called as attention of one
// rank is, since policies treat both alike.
[[nodiscard]] const OperatorFamily& ring_attention_family();
// Tells attention, also that of positions which are divided among ranks.
[[nodiscard]] bool is_attention(const OperatorFamily& family);

}  // namespace tidemark
