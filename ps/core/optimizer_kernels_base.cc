// Compiled with options of its own: CMakeLists.txt of this folder.
#define DLRUN_WAVE base_wave
#include "ps/core/optimizer_kernels.inc"
