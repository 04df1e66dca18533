# shellcheck shell=bash
# Sourced before a build: panics and asserts name files of other crates by their path below cargo's folder, not by the
# path on the machine that builds.
home=${CARGO_HOME:-$HOME/.cargo}
if command -v cygpath >/dev/null; then
    home=$(cygpath -w "$home")
else
    export CFLAGS="-ffile-prefix-map=$home=/cargo"
fi
export RUSTFLAGS="--remap-path-prefix=$home=/cargo"
