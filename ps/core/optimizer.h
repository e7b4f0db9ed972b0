#pragma once
/// ps/core/optimizer.h: how a row is born and how a gradient changes it. g is the sum of a key's
/// gradients in one push (under BSP: in one clock); all arithmetic in float, element by element.
///
///   kSgd      g' = g + l2 w;  w -= eta g'
///   kAdagrad  g' = g + l2 w;  n += g'^2;  w -= eta g' / (sqrt(n) + epsilon)
///             Source: Duchi, Hazan, Singer, JMLR 2011, diagonal form, as torch.optim.Adagrad
///             (lr_decay 0) has it.
///   kFtrl     sigma = (sqrt(n + g^2) - sqrt(n)) / alpha;  z += g - sigma w;  n += g^2;
///             w = 0 when |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / alpha + l2)
///             Source: McMahan et al., KDD 2013, algorithm 1. Differs from it: z starts where it
///             yields the initial w.
///   kAssign   w = g
///
/// Row: weights [dim], then the optimizer's state: Adagrad n [dim]; FTRL z [dim], n [dim].
/// Pure functions. `state` may be null where state_floats() is 0.

#include <cstdint>

#include "ps/core/msg.h"

namespace dlrun::ps {

/// Floats of state beside a row's `dim` weights.
std::uint32_t state_floats(const TableSchema& schema) noexcept;

/// The row as it is before the first push: a function of (schema.seed, schema.id, key) alone, so
/// that the order of arrival does not matter. Philox4x32-10 by element; normal by Box-Muller.
void init_row(const TableSchema& schema, std::uint64_t key, float* weights, float* state) noexcept;

/// The weights alone.
void init_weights(const TableSchema& schema, std::uint64_t key, float* weights) noexcept;

/// One optimizer step with gradient g [dim].
void apply_gradient(const TableSchema& schema, float* weights, float* state,
                    const float* g) noexcept;

}  // namespace dlrun::ps
