#pragma once
/// runtime/device/cuda/row_kernels.h: launches of the row kernels on a stream. All pointers are
/// device memory; ids are distinct and in range (gather: may repeat). A row is `stride` floats: dim
/// weights, then whatever state its rule keeps. Returns the cudaError_t of the launch as an int; 0
/// = launched. Asynchronous. Plain types, so that C++ files need no nvcc.

#include <cstdint>

namespace dlrun::device::kernels {

struct Rows {
  float* data = nullptr;
  std::uint32_t dim = 0;
  std::uint32_t stride = 0;
};

/// columns [dim, stride) of rows [0, count)
int fill_state(Rows rows, std::uint64_t count, float value, void* stream);
int scatter(Rows rows, const std::uint32_t* ids, std::uint64_t n, const float* values,
            void* stream);
int gather(Rows rows, const std::uint32_t* ids, std::uint64_t n, float* out, void* stream);
int update_sgd(Rows rows, const std::uint32_t* ids, std::uint64_t n, const float* grads, float rate,
               float l2, void* stream);
int update_adagrad(Rows rows, const std::uint32_t* ids, std::uint64_t n, const float* grads,
                   float rate, float l2, float epsilon, void* stream);

}  // namespace dlrun::device::kernels
