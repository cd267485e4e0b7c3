# What every script here needs: headings, and Go itself.

say() { printf '\n== %s\n' "$*"; }
note() { printf '   %s\n' "$*"; }

# find_go puts Go on the PATH where its usual place is not on it, or ends the script.
find_go() {
  command -v go >/dev/null || PATH="$PATH:/usr/local/go/bin"
  command -v go >/dev/null || { echo "Go is not installed: https://go.dev/doc/install" >&2; exit 2; }
  export PATH
  # A clone that belongs to somebody else would keep go build from stamping a commit.
  export GOFLAGS="${GOFLAGS:-} -buildvcs=false"
}
