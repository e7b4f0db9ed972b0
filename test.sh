#!/usr/bin/env bash
# test.sh: builds the tests (Debug, address and undefined-behaviour sanitizers) and runs them.
#
#   ./test.sh              unit, sim and integration
#   ./test.sh NAME...      the tests whose name matches one of these (as ctest -R)
#   ./test.sh frameworks   real frameworks train real models; installs those that are missing into environments of the build folder
#   ./test.sh --all        also: frameworks, TSan, fuzzing by time slice, the CUDA build
#   ./test.sh --long       these with the full counts: 20,000 seeds, 50 kills of each kind, an hour of fuzzing (with --all: every suite)
#
# Environment: DLRUN_BUILD_ROOT where to build; DLRUN_CUDA_HOME a CUDA toolkit; DLRUN_DATA_DIR real data sets for the tests that
# use them (default: ../shared/data when it is there; without it those tests say so and are skipped).
. "$(dirname "$0")/tools/lib.sh"
. "$dlrun_source/tools/install-deps.sh"
. "$dlrun_source/tools/frameworks.sh"

all=0 long=OFF names=() frameworks=0
for argument in "$@"; do
  case $argument in
    --all) all=1 ;;
    --long) long=ON ;;
    -h|--help) sed -n '2,12p' "$0"; exit 0 ;;
    -*) sed -n '2,12p' "$0" >&2; exit 2 ;;
    frameworks) frameworks=1 names+=(frameworks_test client_learning_test client_framework_test) ;;
    *) names+=("$argument") ;;
  esac
done

start_log test
if [ -z "${DLRUN_DATA_DIR:-}" ] && [ -d "$dlrun_source/../shared/data" ]; then
  DLRUN_DATA_DIR=$(cd "$dlrun_source/../shared/data" && pwd -P)
fi
[ -z "${DLRUN_DATA_DIR:-}" ] || export DLRUN_DATA_DIR
[ "$long" = OFF ] || export DLRUN_LONG=1

fuzz=$all labels='unit|sim|integration'
if [ "$long" = ON ]; then fuzz=1 labels+='|fuzz'; fi
[ $all = 0 ] || frameworks=1
groups=(build test)
[ $fuzz = 0 ] || groups+=(fuzz)
[ $frameworks = 0 ] || groups+=(framework)
install_deps "${groups[@]}"
make_venv numpy scikit-learn pyarrow pyzmq
export DLRUN_PYTHON=$dlrun_venv/bin/python
make_other_venvs
if [ $frameworks = 1 ]; then
  if [ $long = ON ]; then make_frameworks tensorflow216; else make_frameworks; fi
fi

folders=(dev)
configure dev -DDLRUN_LONG=$long
build dev all
if [ $all = 1 ]; then
  # The release build is what users get: warnings of the optimiser and the packaging show here.
  configure release
  build release all
  step "packing the tarball" cmake --build "$DLRUN_BUILD_ROOT/release" --target package
  folders+=(tsan)
  configure tsan -DDLRUN_LONG=$long
  build tsan dlrun_tests
  if cuda=$("$dlrun_source/tools/cuda-toolchain.sh"); then
    folders+=(cuda)
    export LIBRARY_PATH=$cuda/lib${LIBRARY_PATH:+:$LIBRARY_PATH}
    configure cuda "-DCMAKE_CUDA_COMPILER=$cuda/bin/nvcc"
    build cuda dlrun_tests
  else
    say "no CUDA compiler could be had: the cuda preset is left out"
  fi
fi
if [ $fuzz = 1 ]; then
  folders+=(fuzz)
  configure fuzz -DDLRUN_LONG=$long
  build fuzz dlrun_tests
fi

# One ctest over all builds, so that its closing summary counts everything.
index=$DLRUN_BUILD_ROOT/test-index
mkdir -p "$index"
for folder in "${folders[@]}"; do printf 'subdirs("%s")\n' "$DLRUN_BUILD_ROOT/$folder"; done >"$index/CTestTestfile.cmake"
if [ $all = 1 ]; then
  cat >>"$index/CTestTestfile.cmake" <<END
add_test(package.stands_alone bash "$dlrun_source/tools/check-package.sh" "$(ls -t "$DLRUN_BUILD_ROOT"/release/dlrun-*.tar.gz | head -1)")
set_tests_properties(package.stands_alone PROPERTIES LABELS package TIMEOUT 120)
END
fi

arguments=(--test-dir "$index" --output-on-failure --no-tests=error -j "$(nproc)")
if [ ${#names[@]} -gt 0 ]; then
  arguments+=(-R "$(IFS='|'; echo "${names[*]}")")
elif [ $all = 0 ]; then
  arguments+=(-L "^($labels)\$")
fi
say "==> running the tests; details in $dlrun_log"
printf '\n==> ctest %s\n' "${arguments[*]}" >>"$dlrun_log"
ctest "${arguments[@]}" 2>&1 </dev/null | tee -a "$dlrun_log"
