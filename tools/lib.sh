# tools/lib.sh: what quickstart.sh, test.sh and bench.sh share. Sourced, not run.
#
#   dlrun_source   the checkout
#   DLRUN_BUILD_ROOT  where everything is built: $DLRUN_BUILD_ROOT when set, else ~/.cache/dlrun/build/<hash of the checkout's path>
#   dlrun_log      the log file of this run (start_log NAME)
#   step "text" command...   one progress line; the command's output goes to the log; on failure its last lines are shown
#   configure PRESET [-D...]; build PRESET TARGET...   quiet when there is nothing to do
#   make_venv PACKAGE...     $dlrun_venv, with these Python packages
#   make_other_venvs         $DLRUN_OTHER_PYTHONS: the oldest and the newest other CPython here, with numpy

set -euo pipefail
dlrun_source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
: "${HOME:=$(getent passwd "$(id -u)" | cut -d: -f6)}"
export HOME
if [ -z "${DLRUN_BUILD_ROOT:-}" ]; then
  DLRUN_BUILD_ROOT=$HOME/.cache/dlrun/build/$(printf %s "$dlrun_source" | sha256sum | cut -c1-12)
fi
export DLRUN_BUILD_ROOT
dlrun_venv=$DLRUN_BUILD_ROOT/venv
dlrun_log=/dev/null

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

start_log() {
  mkdir -p "$DLRUN_BUILD_ROOT/log" || die "cannot make $DLRUN_BUILD_ROOT/log: set DLRUN_BUILD_ROOT to a folder that can be written"
  dlrun_log=$DLRUN_BUILD_ROOT/log/$1.log
  [ ! -f "$dlrun_log" ] || mv -f "$dlrun_log" "$dlrun_log.1"
  printf '%s %s, commit %s\n' "$(date -u +%FT%TZ)" "$1" "$(git -C "$dlrun_source" rev-parse --short HEAD 2>/dev/null || echo unknown)" >"$dlrun_log"
}

fail_with_log() {
  say "error: $1 failed; the last lines of $dlrun_log:"
  tail -n 25 "$dlrun_log" >&2
  exit 1
}

step() {
  local text=$1 began=$SECONDS
  shift
  say "==> $text"
  printf '\n==> %s\n%s\n' "$text" "+ $*" >>"$dlrun_log"
  "$@" >>"$dlrun_log" 2>&1 </dev/null || fail_with_log "$text"
  say "    done in $((SECONDS - began)) s"
}

# As many compilers as there are cores, but no more than one per 1.5 GiB of memory.
jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/MemAvailable/ {print int($2 / 1572864)}' /proc/meminfo)
  [ "$memory" -ge 1 ] || memory=1
  echo $((cores < memory ? cores : memory))
}

configure() {
  local preset=$1 args
  shift
  args="$*"
  # CMake reconfigures by itself when its files change; only a first time or other arguments need this.
  if [ -f "$DLRUN_BUILD_ROOT/$preset/build.ninja" ] && [ "$(cat "$DLRUN_BUILD_ROOT/$preset/.arguments" 2>/dev/null)" = "$args" ]; then
    return 0
  fi
  step "configuring the $preset build" cmake -S "$dlrun_source" --preset "$preset" "$@"
  printf '%s' "$args" >"$DLRUN_BUILD_ROOT/$preset/.arguments"
}

build() {
  local preset=$1 folder=$DLRUN_BUILD_ROOT/$1 began=$SECONDS shown=0 line tenth started=0
  shift
  printf '\n==> building %s: %s\n' "$preset" "$*" >>"$dlrun_log"
  # Nothing is said until the first real step: ninja always looks for new files first.
  if ! ninja -C "$folder" -j "$(jobs)" "$@" 2>&1 </dev/null | {
      while IFS= read -r line; do
        printf '%s\n' "$line" >>"$dlrun_log"
        [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
        case $line in *'Re-checking globbed directories'*|*'Re-running CMake'*) continue ;; esac
        if [ $started = 0 ]; then
          started=1
          say "==> building: $preset preset"
        fi
        tenth=$((BASH_REMATCH[1] * 10 / BASH_REMATCH[2]))
        if [ -t 2 ]; then
          printf '\r    %s of %s' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" >&2
        elif [ "$tenth" -gt "$shown" ] && [ "${BASH_REMATCH[2]}" -ge 20 ]; then
          shown=$tenth
          say "    ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]}"
        fi
      done
      [ $started = 0 ] || [ ! -t 2 ] || printf '\n' >&2
      [ $started = 0 ] || say "    ended after $((SECONDS - began)) s"
    }; then
    fail_with_log "building"
  fi
}

# Debian's own interpreter: another python3 on PATH may lack venv, or be older than its packages.
make_venv() {
  local wanted="$*"
  if [ "$(cat "$dlrun_venv/.packages" 2>/dev/null)" = "$wanted" ] && "$dlrun_venv/bin/python" -c '' 2>/dev/null; then
    return 0
  fi
  if ! "$dlrun_venv/bin/python" -c '' 2>/dev/null; then
    step "making a Python environment in $dlrun_venv" /usr/bin/python3 -m venv --clear "$dlrun_venv"
  fi
  step "installing $wanted into it with pip" "$dlrun_venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
  printf '%s' "$wanted" >"$dlrun_venv/.packages"
}

# For the oldest and the newest other CPython >= 3.9 on this machine an environment with numpy: $DLRUN_OTHER_PYTHONS, with ':' between.
# None is needed: one for which pip has no numpy is left out.
make_other_venvs() {
  local minor python folder list=() candidates
  local ask='import sys, venv, ensurepip; v = sys.version_info[:2]; print(v[1], sys.executable) if (3, 9) <= v < (4, 0) else 0'
  candidates=$(for python in /usr/bin/python3.[0-9] /usr/bin/python3.[0-9][0-9] "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3; do
    [ ! -x "$python" ] || "$python" -I -c "$ask" 2>/dev/null || true
  done | grep -v "^$("$dlrun_venv/bin/python" -c 'import sys; print(sys.version_info[1])') " | sort -n -u -k1,1) || true
  while read -r minor python; do
    folder=$dlrun_venv-3.$minor
    if ! "$folder/bin/python" -c 'import numpy' 2>/dev/null; then
      say "==> making an environment with numpy for $python"
      { "$python" -m venv --clear "$folder" && "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: numpy; } \
        >>"$dlrun_log" 2>&1 </dev/null || { say "    left out: see $dlrun_log"; rm -rf "$folder"; continue; }
    fi
    list+=("$folder/bin/python")
  done < <(printf '%s\n' "$candidates" | sed -n '1p;$p' | sort -u | grep .)
  DLRUN_OTHER_PYTHONS=$(IFS=:; echo "${list[*]}")
  export DLRUN_OTHER_PYTHONS
}
