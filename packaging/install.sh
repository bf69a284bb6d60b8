#!/bin/sh
# Installs logdur into a folder, or removes it from there again. It needs no other program than a POSIX system has.
set -eu

usage() {
    echo "usage: ./install.sh --prefix DIR" >&2
    exit 2
}

here=$(cd "$(dirname "$0")" && pwd)
prefix=
while [ $# -gt 0 ]; do
    case $1 in
        --prefix) [ $# -ge 2 ] || usage; prefix=$2; shift 2 ;;
        --prefix=*) prefix=${1#--prefix=}; shift ;;
        *) usage ;;
    esac
done
[ -n "$prefix" ] || usage

list=$prefix/share/logdur/installed-files
if [ -e "$list" ]; then
    echo "install.sh: $prefix has a logdur already; $prefix/share/logdur/uninstall removes it" >&2
    exit 1
fi
cd "$here"
find bin lib include share ! -type d 2>/dev/null | sort | while IFS= read -r file; do
    if [ -e "$prefix/$file" ]; then
        echo "install.sh: $prefix/$file belongs to something else; nothing is installed" >&2
        exit 1
    fi
done
mkdir -p "$prefix/share/logdur"
# The list comes first: an installation that is stopped can be removed.
find bin lib include share ! -type d 2>/dev/null | sort > "$list"
while IFS= read -r file; do
    mkdir -p "$prefix/$(dirname "$file")"
    cp -P "$file" "$prefix/$file"
done < "$list"
echo "$prefix/bin/omniprobe is installed; $prefix/share/logdur/uninstall removes it"
