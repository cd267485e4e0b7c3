# One Redis and one PostgreSQL for the tests alone: on free loopback ports, with their data
# in $work, stopped by process id. Each test makes its own schema and key prefix in them.

started=() # "pid signal name", in the order of starting

# Where Linux can, a server also ends when this script is killed without a chance to stop it.
ends_with_us() { # SIGNAL
  leash=()
  ! setpriv --pdeathsig "$1" true 2>/dev/null || leash=(setpriv --pdeathsig "$1")
}

# free_port prints a loopback port that nobody listens on, below the ephemeral range.
free_port() {
  local port
  while :; do
    port=$((20000 + RANDOM % 12000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
  done
}

alive() { kill -0 "$1" 2>/dev/null; }

# wait_for PID COMMAND...: until the command succeeds; fails when the process ended or 60
# seconds passed.
wait_for() {
  local pid=$1 deadline=$((SECONDS + 60))
  shift
  until "$@" >/dev/null 2>&1; do
    alive "$pid" && [ $SECONDS -lt $deadline ] || return 1
    sleep 0.1
  done
  alive "$pid" # what answered is not somebody else's
}

# start_redis sets LATCHKEY_TEST_REDIS. A port that was taken meanwhile gets another try.
start_redis() {
  local port pid leash
  ends_with_us TERM
  for _ in 1 2 3 4 5; do
    port=$(free_port)
    "${leash[@]}" redis-server --bind 127.0.0.1 --port "$port" --dir "$work" --save '' --appendonly no \
      --maxmemory-policy noeviction --daemonize no </dev/null >"$work/redis.log" 2>&1 &
    pid=$!
    if wait_for "$pid" redis-cli -h 127.0.0.1 -p "$port" ping; then
      started+=("$pid TERM redis-server")
      export LATCHKEY_TEST_REDIS="127.0.0.1:$port"
      return 0
    fi
    kill -KILL "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
  done
  note "redis-server does not start; its last lines:"
  tail -n 15 "$work/redis.log" | sed 's/^/   | /'
  return 1
}

# start_postgres sets LATCHKEY_TEST_POSTGRES, a superuser's DSN. PostgreSQL refuses to run
# as root, so root runs it as user postgres. fsync is off: the tests kill processes, not
# the machine, and what a killed process wrote stays.
start_postgres() {
  local bin=$1 port pid leash password data="$work/postgres" run=()
  ends_with_us INT
  password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  mkdir "$data" && printf '%s\n' "$password" >"$work/postgres.pw"
  if [ "$(id -u)" = 0 ]; then
    run=(setpriv --reuid=postgres --regid=postgres --init-groups --)
    chmod 711 "$work" && chown postgres "$data" "$work/postgres.pw" || return 1
    "${run[@]}" test -w "$data" || { note "user postgres cannot reach $work; set TMPDIR to a folder it can"; return 1; }
  fi
  if ! (cd "$data" && "${run[@]}" "$bin/initdb" -D "$data/db" -U latchkey_test --pwfile="$work/postgres.pw" \
    --auth=scram-sha-256 -E UTF8 --locale=C.UTF-8 --no-sync) </dev/null >"$work/postgres.log" 2>&1; then
    note "initdb failed; its last lines:"
    tail -n 15 "$work/postgres.log" | sed 's/^/   | /'
    return 1
  fi
  for _ in 1 2 3 4 5; do
    port=$(free_port)
    (cd "$data" && exec "${run[@]}" "${leash[@]}" "$bin/postgres" -D "$data/db" -c listen_addresses=127.0.0.1 -c port="$port" \
      -c unix_socket_directories="$data" -c max_connections=300 -c fsync=off -c full_page_writes=off \
      -c log_min_messages=fatal) </dev/null >>"$work/postgres.log" 2>&1 &
    pid=$!
    if wait_for "$pid" "$bin/pg_isready" -q -h 127.0.0.1 -p "$port"; then
      started+=("$pid INT postgres")
      export LATCHKEY_TEST_POSTGRES="postgres://latchkey_test:$password@127.0.0.1:$port/postgres?sslmode=disable"
      return 0
    fi
    kill -QUIT "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
  done
  note "PostgreSQL does not start; its last lines:"
  tail -n 15 "$work/postgres.log" | sed 's/^/   | /'
  return 1
}

# stop_servers ends what was started here, last in first out, and nothing else.
stop_servers() {
  local i pid signal name deadline
  for ((i = ${#started[@]} - 1; i >= 0; i--)); do
    read -r pid signal name <<<"${started[i]}"
    kill "-$signal" "$pid" 2>/dev/null || continue
    deadline=$((SECONDS + 15))
    while alive "$pid" && [ $SECONDS -lt $deadline ]; do sleep 0.1; done
    if alive "$pid"; then
      note "$name ($pid) did not stop; killing it"
      kill -QUIT "$pid" 2>/dev/null
      sleep 1
      kill -KILL "$pid" 2>/dev/null
    fi
    wait "$pid" 2>/dev/null
  done
  started=()
}
