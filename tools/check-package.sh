#!/usr/bin/env bash
# tools/check-package.sh TARBALL: unpacks the package in a folder of its own and checks that it stands alone: every shared library of every
# program and library in it comes from the package itself, glibc's apart; `dlrun version` answers; the Python package is there; a job
# runs with nothing but the package, under a static shim of 2 MiB at most, and its output is there afterwards.
set -euo pipefail
tarball=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -xzf "$tarball" -C "$folder"
root=$(echo "$folder"/dlrun-*)
glibc='^(linux-vdso|ld-linux-x86-64|lib(c|m|dl|rt|pthread|util|resolv|nsl|anl|mvec))\.so'
status=0
while IFS= read -r file; do
  case $(head -c 4 "$file" | od -An -c | tr -d ' ') in 177ELF) ;; *) continue ;; esac
  # The way from the program counts, so libraries are checked through the programs that load them.
  case $file in "$root"/bin/*|"$root"/lib/dlrun/*.so) ;; *) continue ;; esac
  loads=$(env -u LD_LIBRARY_PATH ldd "$file" 2>&1) || { grep -q 'not a dynamic executable\|statically linked' <<<"$loads" && continue; }
  while read -r name arrow path _; do
    [ -n "$name" ] && [[ $name != statically ]] || continue
    [[ ${name##*/} =~ $glibc ]] && continue
    if [ "$arrow" != "=>" ] || [[ $path != "$root"/* && $(realpath -m "$path") != "$root"/* ]]; then
      echo "${file#"$root"/} loads $name from ${path:-nowhere}" >&2
      status=1
    fi
  done <<<"$loads"
done < <(find "$root" -type f)
[ -f "$root/lib/dlrun/python/dlrun/__init__.py" ] || { echo "the Python package is missing" >&2; status=1; }
[ -f "$root/lib/systemd/system/dlrun-agent.service" ] || { echo "the systemd units are missing" >&2; status=1; }
env -i HOME="$folder" PATH=/nonexistent "$root/bin/dlrun" version || status=1
grep -q 'not a dynamic executable\|statically linked' <<<"$(ldd "$root/bin/dlrun-shim" 2>&1 || true)" || { echo "dlrun-shim is not static" >&2; status=1; }
alone() { env -i HOME="$folder" PATH=/nonexistent "$root/bin/dlrun" "$@"; }
# The program's parent is its shim.
# shellcheck disable=SC2016
shim_kib=$(alone run -q -- /bin/sh -c 'while read -r key value rest; do [ "$key" != VmRSS: ] || echo "$value"; done </proc/$PPID/status') || status=1
case $shim_kib in ''|*[!0-9]*) echo "the job said '$shim_kib'" >&2; status=1; shim_kib=0 ;; esac
[ "$shim_kib" -le 2048 ] || { echo "dlrun-shim takes $shim_kib KiB" >&2; status=1; }
[ "$(alone logs j1)" = "$shim_kib" ] || { echo "the output of the job is gone" >&2; status=1; }
[ $status = 0 ] && echo "the package stands alone: $(du -sh "$root" | cut -f1), a shim of $shim_kib KiB, $(find "$root/lib" -maxdepth 1 -name '*.so*' -type f | wc -l) libraries"
exit $status
