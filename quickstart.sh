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
cd "$dlrun_source"
say "==> dlrun run -n 2 --ps 2 -- python examples/digits/train.py"
"$dlrun" run -n 2 --ps 2 -- "$dlrun_venv/bin/python" examples/digits/train.py
