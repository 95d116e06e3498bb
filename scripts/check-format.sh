#!/bin/sh
# Fails if clang-format would change a C file that git tracks. Other versions
# than 14, Debian 12's, format some lines differently.
set -eu
SETUP_EXTRA=clang-format-14 scripts/setup.sh
format=clang-format
for name in clang-format-14 clang-format; do
    if $name --version 2>/dev/null | grep -q 'version 14\.'; then
        format=$name
        break
    fi
done
git ls-files -z '*.[ch]' | xargs -0 -n 100 -P "$(nproc)" \
    "$format" --dry-run -Werror || {
    echo "check-format: git ls-files -z '*.[ch]' | xargs -0 $format -i" \
        "formats them" >&2
    exit 1
}
