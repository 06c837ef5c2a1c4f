#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# From an empty Debian 12 (root, or a user with sudo) to a running program:
#
#   sh setup.sh run       installs what the build needs, builds, fits the example config (make run)
#   sh setup.sh test      the same for the tests; ends with 'N passed, N failed' (make test)
#   sh setup.sh test-all  the same for every suite, of which some take hours (make test-all)
#   sh setup.sh fuzz      the same for libFuzzer: ten minutes a target (make fuzz); no test needs it
#
# Packages that are there already are left alone; without a missing one no package manager is started.
set -eu
cd "$(dirname "$0")"

build='gcc gettext libc6-dev make meson ninja-build pkg-config python3 libfyaml-dev libjansson-dev libjs-dygraphs libmicrohttpd-dev libncurses-dev libpq-dev libsqlite3-dev libzstd-dev zlib1g-dev'
tests='ca-certificates chromium clang clang-tidy cppcheck curl fish libcmocka-dev libopenblas0-pthread mandoc openssl postgresql procps prometheus pyflakes3
       python3-ruamel.yaml python3-torch python3-torchvision python3-venv python3-yaml tmux wrk zsh zstd'
# The wheels and the .deb: made, judged by their own tools, and the other processor's run.
made='autoconf automake binutils debhelper libtool lintian'
case $(uname -m) in
aarch64) made="$made libc6-amd64-cross" ;;
*) made="$made libc6-arm64-cross" ;;
esac
made="$made qemu-user-static ruby"
fuzz='afl++ clang libclang-rt-14-dev' # the runtime of the clang of Debian 12

case "${1-}" in
run) packages=$build ;;
test) packages="$build $tests" ;;
test-all) packages="$build $tests $made" ;;
fuzz) packages="$build $fuzz" ;;
*)
    echo 'usage: sh setup.sh run | test | test-all | fuzz' >&2
    exit 2
    ;;
esac

give_up() {
    printf 'setup.sh: %s\nIt needs these packages (names as in Debian 12):\n' "$1" >&2
    echo "  $2" | fold -s -w 100 >&2
    echo "Install them in your system's way, then: make $3" >&2
    exit 1
}

missing_packages() {
    for package in $packages; do
        case $(dpkg-query -W -f='${db:Status-Status} ' "$package" 2>/dev/null) in
        *installed*) ;;
        *) printf '%s ' "$package" ;;
        esac
    done
}

three_times() { # mirrors fail now and then
    "$@" || { sleep 5; "$@"; } || { sleep 30; "$@"; }
}

for tool in dpkg-query apt-get; do
    command -v "$tool" >/dev/null || give_up "this is not a Debian system: no $tool." "$packages" "$1"
done
missing=$(missing_packages)
if [ -n "$missing" ]; then
    as_root=
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || give_up 'not root, and there is no sudo.' "$missing" "$1"
        as_root=sudo
    fi
    echo "setup.sh: installing $missing"
    three_times $as_root apt-get -q -o Acquire::Retries=5 update
    # shellcheck disable=SC2086 # a list of words
    three_times $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=5 \
        install --no-install-recommends $missing ||
        give_up 'apt-get could not install everything; Debian 12 or newer has it.' "$missing" "$1"
fi
exec make "$1"
