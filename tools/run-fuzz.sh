#!/usr/bin/env bash
# tools/run-fuzz.sh PROGRAM SEEDS: runs a libFuzzer program for $DLRUN_FUZZ_SECONDS (12; 240 with DLRUN_LONG: an hour for all of them) from the files in SEEDS.
# The corpus it grows and an input that breaks it stay in the build folder, beside the program; the input's path is printed.
set -euo pipefail
program=$1 seeds=$2
seconds=${DLRUN_FUZZ_SECONDS:-12}
[ -z "${DLRUN_LONG:-}" ] || seconds=${DLRUN_FUZZ_SECONDS:-240}
corpus=$program.corpus
mkdir -p "$corpus"
[ -d "$seeds" ] || seeds=
exec "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 -verbosity=0 \
  -artifact_prefix="$program.failed-" "$corpus" ${seeds:+"$seeds"}
