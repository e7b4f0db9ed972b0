// Compiled with options of its own: CMakeLists.txt of this folder.
#define DLRUN_WAVE avx2_wave
#include "ps/core/optimizer_kernels.inc"
