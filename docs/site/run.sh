#!/bin/sh
# docs/site/run.sh: the site of the documents, built into build/docs and checked. Needs npm's packages once, and no network later.
set -eu
cd "$(dirname "$0")"
if ! cmp -s package-lock.json node_modules/.steelyard-lock; then
  npm ci --silent --no-fund --no-audit
  cp package-lock.json node_modules/.steelyard-lock
fi
npx vitepress build .
node check.mjs ../../build/docs
