#ifndef DMLC_BASE_H_
#define DMLC_BASE_H_
/// dmlc/base.h: nothing is left to define; programs include it.
#include <cstddef>
#include <cstdint>
#endif  // DMLC_BASE_H_
