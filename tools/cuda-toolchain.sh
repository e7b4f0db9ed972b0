#!/usr/bin/env bash
# tools/cuda-toolchain.sh: prints the folder of a CUDA toolkit (bin/nvcc, include/, lib/), which it makes when there is none.
# Order: $DLRUN_CUDA_HOME; nvcc on PATH; NVIDIA's wheels from the Python package index in $DLRUN_BUILD_ROOT/cuda-venv (about 300 MB).
# Exit 1 with a line on stderr when none can be had. No driver and no GPU are needed to compile.
. "$(dirname "$0")/lib.sh"

if [ -n "${DLRUN_CUDA_HOME:-}" ]; then
  [ -x "$DLRUN_CUDA_HOME/bin/nvcc" ] || die "DLRUN_CUDA_HOME=$DLRUN_CUDA_HOME has no bin/nvcc"
  echo "$DLRUN_CUDA_HOME"
  exit 0
fi
if nvcc=$(command -v nvcc); then
  dirname "$(dirname "$(readlink -f "$nvcc")")"
  exit 0
fi
venv=$DLRUN_BUILD_ROOT/cuda-venv
packages="nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85 nvidia-nccl-cu13==2.28.9"
if [ "$(cat "$venv/.packages" 2>/dev/null)" != "$packages" ]; then
  start_log cuda-toolchain
  step "making an environment for the CUDA compiler in $venv" /usr/bin/python3 -m venv --clear "$venv"
  # shellcheck disable=SC2086
  step "installing NVIDIA's compiler, runtime and NCCL into it with pip" "$venv/bin/python" -m pip install --quiet --disable-pip-version-check $packages
  printf '%s' "$packages" >"$venv/.packages"
fi
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
home=$site/nvidia/cu13
[ -x "$home/bin/nvcc" ] || die "the wheels in $venv hold no nvcc"
# The linker asks for libNAME.so, the wheels hold libNAME.so.VERSION only.
for library in "$home"/lib/lib*.so.* "$site"/nvidia/nccl/lib/lib*.so.*; do
  [ -e "$library" ] || continue
  plain=${library%%.so.*}.so
  [ -e "$plain" ] || ln -s "$(basename "$library")" "$plain"
done
echo "$home"
