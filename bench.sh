#!/usr/bin/env bash
# bench.sh: builds the benchmarks (release) and runs them. Progress goes to stderr; stdout is one JSON object a line.
#
#   ./bench.sh [--quick] [--check] [NAME...]    those, or all; --quick shortens; --check: exit 1 when a figure misses its `must`
#   ./bench.sh --list                           the names
. "$(dirname "$0")/tools/lib.sh"
. "$dlrun_source/tools/install-deps.sh"

# bench/programs/NAME.cc is the bench NAME.
bench_names() { (cd "$dlrun_source/bench/programs" 2>/dev/null && ls -- *.cc 2>/dev/null | sed 's/\.cc$//') || true; }

quick=() check=0 names=()
for argument in "$@"; do
  case $argument in
    --list) bench_names; exit 0 ;;
    --quick) quick=(--quick) ;;
    --check) check=1 ;;
    -h|--help) sed -n '2,5p' "$0"; exit 0 ;;
    -*) sed -n '2,5p' "$0" >&2; exit 2 ;;
    *) names+=("$argument") ;;
  esac
done
known=$(bench_names)
[ ${#names[@]} -gt 0 ] || mapfile -t names <<<"$known"
for name in "${names[@]}"; do
  grep -qx -- "$name" <<<"$known" || die "no bench '$name'; there are: $(tr '\n' ' ' <<<"$known")"
done

start_log bench
groups=(build)
[[ " ${names[*]} " != *" ps-train "* ]] || groups+=(framework)  # PyTorch is its peer
install_deps "${groups[@]}"
configure bench
build bench all
make_venv numpy scikit-learn xgboost-cpu pyarrow pandas
export DLRUN_PYTHON=$dlrun_venv/bin/python DLRUN_SOURCE_DIR=$dlrun_source

host_line() {
  local cpu commit
  cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -1 | tr -d '"\\')
  commit=$(git -C "$dlrun_source" rev-parse --short HEAD 2>/dev/null || echo unknown)
  printf '{"bench":"%s","host":{"cpu":"%s","cores":%s,"kernel":"%s"},"commit":"%s"}\n' "$1" "$cpu" "$(nproc)" "$(uname -r)" "$commit"
}

status=0
lines=$DLRUN_BUILD_ROOT/log/bench.jsonl
: >"$lines"
for name in "${names[@]}"; do
  say "==> bench $name"
  if ! "$DLRUN_BUILD_ROOT/bench/bin/bench_$name" "${quick[@]}" 2> >(tee -a "$dlrun_log" >&2) </dev/null | tee -a "$lines"; then
    say "error: bench $name failed; see $dlrun_log"
    status=1
  fi
  host_line "$name" | tee -a "$lines"
done
if [ $check = 1 ] && grep '"ok":false' "$lines" >/dev/null; then
  say "these miss their must:"
  grep '"ok":false' "$lines" >&2
  status=1
fi
exit $status
