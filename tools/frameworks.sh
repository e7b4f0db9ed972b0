# tools/frameworks.sh: the frameworks that the `framework` tests train with: a virtual environment each, made of Debian's interpreter,
# cached in the build folder. Sourced after lib.sh and install-deps.sh.
#
#   make_frameworks [NAME...]   $DLRUN_FRAMEWORKS/NAME/bin/python3; these too; what cannot be had leaves $DLRUN_FRAMEWORKS/NAME.failed, with the reason, and
#                     its test fails with that

# Versions: xgboost-cpu is the wheel without CUDA; mxnet 1.9.1 needs a numpy that still has np.bool; tensorflow-cpu 2.15 is the last one
# with Keras 2 and tf.estimator; xgboost 1.7 speaks the older protocol of DMLC's trackers. PyTorch and mpi4py are Debian's own packages
# (group `framework` of install-deps.sh).
framework_packages() {
  case $1 in
    xgboost) echo xgboost-cpu==3.2.0 ;;
    dmlc) echo xgboost==1.7.6 numpy==1.26.4 scipy==1.11.4 ;;
    lightgbm) echo lightgbm==4.7.0 ;;
    mxnet) echo mxnet==1.9.1 numpy==1.23.5 ;;
    tensorflow) echo tensorflow-cpu==2.15.1 ;;
    tensorflow216) echo tensorflow-cpu==2.16.2 tf-keras==2.16.0 ;;
    jax) echo jax==0.10.2 ;;
    *) die "no such framework: $1" ;;
  esac
}

# NAME; prints the reason when it fails. Without compiled modules: what is imported is compiled then, and most of it never is.
install_framework() {
  local folder=$DLRUN_FRAMEWORKS/$1 wanted
  wanted=$(framework_packages "$1")
  rm -f "$folder.failed"
  if [ "$(cat "$folder/.packages" 2>/dev/null)" = "$wanted" ] && "$folder/bin/python3" -c '' 2>/dev/null; then
    return 0
  fi
  rm -rf "$folder"
  # shellcheck disable=SC2086  # several packages
  if /usr/bin/python3 -m venv --without-pip "$folder" && "$dlrun_venv/bin/python" -m pip --python "$folder/bin/python3" install --quiet \
    --disable-pip-version-check --no-compile --only-binary :all: $wanted; then
    printf '%s' "$wanted" >"$folder/.packages"
  else
    rm -rf "$folder"
    return 1
  fi
}

make_frameworks() {
  export DLRUN_FRAMEWORKS=$DLRUN_BUILD_ROOT/frameworks
  local name began=$SECONDS failed=0
  mkdir -p "$DLRUN_FRAMEWORKS"
  for name in xgboost dmlc lightgbm mxnet tensorflow jax "$@"; do
    [ "$(cat "$DLRUN_FRAMEWORKS/$name/.packages" 2>/dev/null)" = "$(framework_packages $name)" ] || say "==> installing $(framework_packages $name) with pip"
    if ! install_framework $name >"$DLRUN_FRAMEWORKS/$name.log" 2>&1 </dev/null; then
      mv "$DLRUN_FRAMEWORKS/$name.log" "$DLRUN_FRAMEWORKS/$name.failed"
      say "    cannot be had: $(tail -n 1 "$DLRUN_FRAMEWORKS/$name.failed")"
      failed=1
    fi
    rm -f "$DLRUN_FRAMEWORKS/$name.log"
  done
  [ $((SECONDS - began)) -lt 2 ] || say "    done in $((SECONDS - began)) s"
  [ $failed = 0 ] || say "    the tests of what is missing will fail"
}
