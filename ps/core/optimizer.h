#pragma once
/// ps/core/optimizer.h: how a row is born and how a gradient changes it. g is the sum of a key's
/// gradients in one push (under BSP: in one clock). First g is clipped (clip_value: each element;
/// clip_norm: g *= min(1, clip_norm / (|g| + 1e-6)), as torch.nn.utils has both), then decay is
/// added: g' = g + l2 w (kAdamW: w *= 1 - eta l2 instead; FTRL and kAssign: none), then
///
///   kSgd         w -= eta g'
///   kMomentum    v = momentum v + g';  w -= eta v
///   kNesterov    v = momentum v + g';  w -= eta (g' + momentum v)
///                Source of the three: Sutskever et al., ICML 2013, in the form of torch.optim.SGD.
///   kAdagrad     n += g'^2;  w -= eta g' / (sqrt(n) + epsilon)
///                Source: Duchi, Hazan, Singer, JMLR 2011, diagonal form, as torch.optim.Adagrad.
///   kAdagradRow  n += mean(g'^2), one n for the row;  w -= eta g' / (sqrt(n) + epsilon)
///                Source: Mudigere et al., ISCA 2022 (row-wise Adagrad of DLRM).
///   kRmsProp     v = beta2 v + (1 - beta2) g'^2;  w -= eta g' / (sqrt(v) + epsilon)
///                Source: Tieleman, Hinton 2012, as torch.optim.RMSprop (alpha = beta2).
///   kAdam        m = beta1 m + (1 - beta1) g';  v = beta2 v + (1 - beta2) g'^2;
///                w -= eta / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
///                t counts the steps of this row. Source: Kingma, Ba, ICLR 2015; torch.optim.Adam.
///   kAdamW       the same with decoupled decay. Source: Loshchilov, Hutter, ICLR 2019.
///   kAmsGrad     kAdam with the largest v so far. Source: Reddi et al., ICLR 2018.
///   kFtrl        sigma = (sqrt(n + g^2) - sqrt(n)) / alpha;  z += g - sigma w;  n += g^2;
///                w = 0 when |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / alpha + l2)
///                Source: McMahan et al., KDD 2013, algorithm 1. Differs: z starts where it yields
///                the initial w.
///   kGroupFtrl   z, n as kFtrl; s_i = 0 when |z_i| <= l1, else sign(z_i) l1 - z_i;
///                w = max(0, 1 - group_l1 sqrt(dim) / |s|) s_i / ((beta + sqrt(n_i)) / alpha + l2)
///                Source: Yue et al., ECML PKDD 2021 (sparse group lasso), the row as the group.
///   kAssign      w = g, not clipped
///
/// Row: weights [dim], then state: momentum v; Adagrad n; Adagrad by row n [1]; RMSProp v; Adam and
/// AdamW m, v, then 1 - beta1^t, 1 - beta2^t; AMSGrad m, v, largest v, then the same two; FTRL z,
/// n. All arithmetic in float, in a fixed order, no fused multiply-add: every Isa gives the same
/// bits. Pure functions. `state` may be null where state_floats() is 0.
/// Threads: a Stepper is immutable but for set_rate.

#include <cstdint>

#include "ps/core/msg.h"
#include "ps/core/optimizer_kernels.h"

namespace dlrun::ps {

/// Floats of state beside a row's `dim` weights.
std::uint32_t state_floats(const TableSchema& schema) noexcept;

/// The row as it is before the first push: a function of (schema.seed, schema.id, key) alone, so
/// that the order of arrival does not matter. Philox4x32-10 by element; normal by Box-Muller.
void init_row(const TableSchema& schema, std::uint64_t key, float* weights, float* state) noexcept;

/// The weights alone.
void init_weights(const TableSchema& schema, std::uint64_t key, float* weights) noexcept;

/// Which build of the kernels.
enum class Isa : std::uint8_t { kBase, kAvx2 };
/// The best that this processor runs.
Isa best_isa() noexcept;

/// One table's step over rows.
class Stepper {
 public:
  explicit Stepper(const TableSchema& schema, Isa isa = best_isa());
  void set_rate(float learning_rate) noexcept { step_.eta = learning_rate; }
  float rate() const noexcept { return step_.eta; }
  /// One step for each of n different rows.
  void operator()(std::uint32_t n, float* const* weights, float* const* states,
                  const float* const* grads) const noexcept {
    wave_(step_, n, weights, states, grads);
  }

 private:
  kernels::Step step_;
  kernels::Wave wave_;
};

/// One step of one row with gradient g [dim], at the schema's learning rate.
void apply_gradient(const TableSchema& schema, float* weights, float* state,
                    const float* g) noexcept;

}  // namespace dlrun::ps
