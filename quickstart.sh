#!/usr/bin/env bash
# quickstart.sh: from a bare Debian 12 machine to a trained model. Installs what is missing (and says what), builds the release preset
# outside the source tree, starts a cluster on this machine, trains on it, and leaves nothing running. Safe to run again.
. "$(dirname "$0")/tools/lib.sh"
. "$dlrun_source/tools/install-deps.sh"

[ $# -eq 0 ] || { sed -n '2,3p' "$0"; exit 2; }
start_log quickstart
install_deps build
configure release
build release quickstart
make_venv numpy scikit-learn

dlrun=$DLRUN_BUILD_ROOT/release/bin/dlrun
out=$DLRUN_BUILD_ROOT/quickstart
mkdir -p "$out"
step "preparing the handwritten digits in $out" "$dlrun_venv/bin/python" "$dlrun_source/examples/digits/prepare.py" "$out"
train="train=$out/train.csv,format=csv,batch_rows=32,passes=30,split_bytes=8KiB"
say "==> dlrun run -n 2 --ps 2 --input $train -- python examples/digits/train.py $out"
"$dlrun" run -n 2 --ps 2 --input "$train" -- "$dlrun_venv/bin/python" "$dlrun_source/examples/digits/train.py" "$out"
say ""
say "Three commands to try next:"
say "  $dlrun list                      the jobs so far; show, logs and events tell more of one"
say "  $dlrun run -n 2 -- sh -c 'echo rank \$RANK of \$WORLD_SIZE'"
say "  $dlrun run --help                examples/README.md has more to run"
