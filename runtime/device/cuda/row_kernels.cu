#include <cuda_runtime.h>

#include "runtime/device/cuda/row_kernels.h"

// One thread for one value, in a loop over the grid, so that neighbours in a warp touch neighbours
// in a row.
namespace dlrun::device::kernels {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::uint64_t kBlocksMax = 65535;

unsigned blocks_for(std::uint64_t values) {
  const std::uint64_t blocks = (values + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < kBlocksMax ? blocks : kBlocksMax);
}

struct Value {
  std::uint64_t row;
  std::uint32_t column;
};
__device__ Value value_at(std::uint64_t i, std::uint32_t dim) {
  return {i / dim, static_cast<std::uint32_t>(i % dim)};
}

template <class F>
__global__ void each(std::uint64_t values, F f) {
  const std::uint64_t step = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  for (std::uint64_t i = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < values; i += step)
    f(i);
}

struct Fill {
  Rows rows;
  float value;
  __device__ void operator()(std::uint64_t i) const {
    const Value v = value_at(i, rows.stride - rows.dim);
    rows.data[v.row * rows.stride + rows.dim + v.column] = value;
  }
};
struct Scatter {
  Rows rows;
  const std::uint32_t* ids;
  const float* values;
  __device__ void operator()(std::uint64_t i) const {
    const Value v = value_at(i, rows.dim);
    rows.data[static_cast<std::uint64_t>(ids[v.row]) * rows.stride + v.column] = values[i];
  }
};
struct Gather {
  Rows rows;
  const std::uint32_t* ids;
  float* out;
  __device__ void operator()(std::uint64_t i) const {
    const Value v = value_at(i, rows.dim);
    out[i] = rows.data[static_cast<std::uint64_t>(ids[v.row]) * rows.stride + v.column];
  }
};
struct Sgd {
  Rows rows;
  const std::uint32_t* ids;
  const float* grads;
  float rate, l2;
  __device__ void operator()(std::uint64_t i) const {
    const Value v = value_at(i, rows.dim);
    float& w = rows.data[static_cast<std::uint64_t>(ids[v.row]) * rows.stride + v.column];
    w -= rate * (grads[i] + l2 * w);
  }
};
struct Adagrad {
  Rows rows;
  const std::uint32_t* ids;
  const float* grads;
  float rate, l2, epsilon;
  __device__ void operator()(std::uint64_t i) const {
    const Value v = value_at(i, rows.dim);
    float* row = rows.data + static_cast<std::uint64_t>(ids[v.row]) * rows.stride;
    float& w = row[v.column];
    float& a = row[rows.dim + v.column];
    const float g = grads[i] + l2 * w;
    a += g * g;
    w -= rate * g / (sqrtf(a) + epsilon);
  }
};

template <class F>
int launch(std::uint64_t values, void* stream, F f) {
  if (values == 0) return 0;
  each<<<blocks_for(values), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(values, f);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace

int fill_state(Rows rows, std::uint64_t count, float value, void* stream) {
  return launch(count * (rows.stride - rows.dim), stream, Fill{rows, value});
}
int scatter(Rows rows, const std::uint32_t* ids, std::uint64_t n, const float* values,
            void* stream) {
  return launch(n * rows.dim, stream, Scatter{rows, ids, values});
}
int gather(Rows rows, const std::uint32_t* ids, std::uint64_t n, float* out, void* stream) {
  return launch(n * rows.dim, stream, Gather{rows, ids, out});
}
int update_sgd(Rows rows, const std::uint32_t* ids, std::uint64_t n, const float* grads, float rate,
               float l2, void* stream) {
  return launch(n * rows.dim, stream, Sgd{rows, ids, grads, rate, l2});
}
int update_adagrad(Rows rows, const std::uint32_t* ids, std::uint64_t n, const float* grads,
                   float rate, float l2, float epsilon, void* stream) {
  return launch(n * rows.dim, stream, Adagrad{rows, ids, grads, rate, l2, epsilon});
}

}  // namespace dlrun::device::kernels
