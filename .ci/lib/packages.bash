# Debian packages that the tests want: a Redis server, PostgreSQL, a C compiler for the
# race detector, Chromium for the console's pages, nginx to stand before the gateways as a
# user's balancer does, Node for the types of the k6 scripts. They are installed where that is allowed without asking; nothing that
# runs already is stopped or used.

# postgres_bin prints the folder of the newest PostgreSQL server here.
postgres_bin() {
  local newest
  newest=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
  if [ -n "$newest" ] && [ -x "$newest/postgres" ] && [ -x "$newest/initdb" ]; then
    echo "$newest"
  elif command -v postgres >/dev/null && command -v initdb >/dev/null; then
    dirname "$(command -v postgres)"
  else
    return 1
  fi
}

has_redis() { command -v redis-server >/dev/null; }
has_chromium() { command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; }
has_nginx() { command -v nginx >/dev/null || [ -x /usr/sbin/nginx ]; }
has_node() { command -v node >/dev/null && command -v npm >/dev/null; }
has_compiler() { echo 'int main(void) { return 0; }' | "${CC:-gcc}" -x c -o /dev/null - 2>/dev/null; }

# install_missing installs what is missing and may be installed; it never fails. Why it did
# not is told once, in $why_not_installed.
install_missing() {
  local wanted=() as_root=()
  why_not_installed=""
  [ -n "${LATCHKEY_TEST_REDIS:-}" ] || has_redis || wanted+=(redis-server)
  [ -n "${LATCHKEY_TEST_POSTGRES:-}" ] || postgres_bin >/dev/null || wanted+=(postgresql)
  has_compiler || wanted+=(gcc libc6-dev)
  has_chromium || wanted+=(chromium)
  has_nginx || wanted+=(nginx-light)
  has_node || wanted+=(nodejs npm)
  [ ${#wanted[@]} -gt 0 ] || return 0

  if [ "${LATCHKEY_TEST_INSTALL:-yes}" = no ]; then
    why_not_installed="LATCHKEY_TEST_INSTALL=no"
  elif ! command -v apt-get >/dev/null; then
    why_not_installed="this is not Debian or Ubuntu"
  elif [ "$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; then
    why_not_installed="neither root nor sudo without a password"
  fi
  if [ -n "$why_not_installed" ]; then
    note "missing and not installed (${why_not_installed}): ${wanted[*]}"
    return 0
  fi

  [ "$(id -u)" = 0 ] || as_root=(sudo -n)
  note "installing ${wanted[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3)
  if ! { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "${wanted[@]}"; } </dev/null >"$work/apt.log" 2>&1; then
    why_not_installed="apt-get failed"
    note "apt-get failed; its last lines:"
    tail -n 15 "$work/apt.log" | sed 's/^/   | /'
  fi
}
