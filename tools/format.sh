#!/usr/bin/env bash
# tools/format.sh [--check] [FILE...]: formats the C++ sources (all, or those given) in place: comments end at column 100
# (wrap_comments.py), the rest is clang-format 14's with .clang-format. --check changes nothing and exits with 1 when something
# would change. Nothing to do: nothing is printed.
. "$(dirname "$0")/lib.sh"

formatter=
for name in clang-format-14 clang-format; do
  if command -v "$name" >/dev/null && "$name" --version | grep -q ' version 14\.'; then formatter=$name; break; fi
done
[ -n "$formatter" ] || die "clang-format 14 is missing: tools/install-deps.sh test"

check=
if [ "${1:-}" = --check ]; then check=1; shift; fi
if [ $# -gt 0 ]; then
  files=("$@")
else
  cd "$dlrun_source"
  # Also what git does not know yet, unless it ignores it.
  mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.h' '*.hpp' '*.cc' '*.cu' '*.cuh' |
    while IFS= read -r file; do [ ! -f "$file" ] || printf '%s\n' "$file"; done)
fi

if [ -n "$check" ]; then
  status=0
  python3 "$dlrun_source/tools/wrap_comments.py" --check "${files[@]}" || status=1
  "$formatter" --dry-run -Werror "${files[@]}" || status=1
  exit $status
fi
# Twice: what moves in the second step may make a comment too long, or a line short enough.
for _ in 1 2; do
  python3 "$dlrun_source/tools/wrap_comments.py" "${files[@]}" || [ $? = 1 ]
  "$formatter" -i "${files[@]}"
done
python3 "$dlrun_source/tools/wrap_comments.py" "${files[@]}"
