# shellcheck shell=bash
# Shared by scripts/demo and scripts/test: finds Python, makes .venv, installs what a command needs. Source it.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
VENV="$ROOT/.venv"
VENV_PYTHON="$VENV/bin/python"
SETUP_LOG="$VENV/setup.log"

heading() { printf '\n== %s\n' "$*"; }
note() { printf '   %s\n' "$*"; }
fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Prints the first Python of at least 3.11; $PYTHON wins.
find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11 python; do
        if command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
    fail "Python 3.11 or newer was not found (looked for python3 and python3.11 to python3.14 on PATH); install it, or set PYTHON to its path"
}

# Names everything the environment depends on; a change means a new installation.
# The repository's path is part of it, because virtual environments cannot be moved.
stamp_of() { # profile requirement...
    { printf '%s\n' "$ROOT" "$@"; "$VENV_PYTHON" -V; cat "$ROOT/pyproject.toml"; } | sha256sum | cut -d' ' -f1
}

make_venv() {
    local python
    if [[ -f "$VENV/.root" && "$(<"$VENV/.root")" == "$ROOT" ]] && "$VENV_PYTHON" -m pip --version >/dev/null 2>&1; then
        return
    fi
    python="$(find_python)"
    "$python" -c 'import venv, ensurepip' >/dev/null 2>&1 ||
        fail "the venv module is missing from $python; on Debian: apt-get install python3-venv"
    note "creating .venv with $("$python" -V)"
    "$python" -m venv --clear "$VENV" || fail "could not create the virtual environment $VENV"
    printf '%s' "$ROOT" >"$VENV/.root"
}

explain_pip_failure() {
    if grep -qiE 'name resolution|connection (refused|broken|error|reset)|timed? ?out|unreachable|NewConnectionError|ProxyError|SSLError|from versions: none' "$SETUP_LOG"; then
        fail "the Python package index cannot be reached (no network?); see $SETUP_LOG"
    fi
    tail -n 8 "$SETUP_LOG" >&2
    fail "pip could not install the packages; see $SETUP_LOG"
}

# setup PROFILE EXTRA [REQUIREMENT...]: .venv with this repository (editable, with EXTRA) and the requirements.
setup() {
    local profile="$1" extra="$2" stamp
    shift 2
    unset PYTHONHOME
    export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
    make_venv
    export PATH="$VENV/bin:$PATH" VIRTUAL_ENV="$VENV"
    stamp="$(stamp_of "$profile" "$extra" "$@")"
    if [[ -f "$VENV/.stamp-$profile" && "$(<"$VENV/.stamp-$profile")" == "$stamp" ]]; then
        return
    fi
    note "installing flydsl[$extra]${*:+ and $*} into .venv (first run, or pyproject.toml has changed)"
    "$VENV_PYTHON" -m pip install --progress-bar off --editable "${ROOT}[$extra]" "$@" >"$SETUP_LOG" 2>&1 </dev/null ||
        explain_pip_failure
    printf '%s' "$stamp" >"$VENV/.stamp-$profile"
}

# have_packages NAME...: whether Debian's package manager has all of them installed.
have_packages() {
    local name
    for name in "$@"; do
        [[ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" == installed ]] || return 1
    done
}

# Debian packages that only make tests stronger: without them those tests are skipped, so failure is never fatal.
setup_packages() {
    local log="$VENV/apt.log"
    if ! command -v apt-get >/dev/null 2>&1; then
        note "no apt-get here: tests that need $* are skipped where those tools are missing"
    elif have_packages "$@"; then
        return 0
    elif [[ "$(id -u)" != 0 ]]; then
        note "not root, so not installing $*: tests that need them are skipped"
    else
        note "installing Debian packages $*"
        if ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } \
            >"$log" 2>&1 </dev/null; then
            note "apt-get could not install them (see $log): tests that need them are skipped"
        fi
    fi
}
