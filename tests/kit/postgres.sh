#!/bin/sh
# PostgreSQL's server and pgbouncer, which the tests of the store start themselves: installed from Debian's packages.
set -e
PATH="$PATH:/usr/sbin"
has_server() { command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; }
if has_server && command -v pgbouncer >/dev/null; then exit 0; fi

fail() { echo "The tests of the store need PostgreSQL (initdb, pg_ctl) and pgbouncer: $1" >&2; exit 2; }
command -v apt-get >/dev/null || fail "install them with this system's package manager."
as_root=""
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null && sudo -n true 2>/dev/null || fail "as root, apt-get install postgresql pgbouncer"
  as_root="sudo -n"
fi
install() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends postgresql pgbouncer; }
log=$(mktemp)
{ install || { $as_root apt-get update && install; }; } >"$log" 2>&1 || { cat "$log" >&2; fail "apt-get could not install them."; }
rm -f "$log"
has_server && command -v pgbouncer >/dev/null || fail "apt-get installed something else."
