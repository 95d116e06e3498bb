# stage.sh: sourced by the tests of installed examples, which are called with
# SOURCE BUILD PREFIX LIBDIR. Installs the build into a directory of its own and
# points pkg-config and the linker there: nothing but what was installed may be
# needed, and it must not matter where it lies.
source=$1 build=$2 prefix=$3
case $4 in
/*) libdir=$4 ;;
*) libdir=$prefix/$4 ;;
esac
command -v pkg-config >/dev/null || exit 77
stage=$(mktemp -d "$build/examples-stage.XXXXXX")
trap 'rm -rf "$stage"' EXIT

DESTDIR=$stage meson install -C "$build" --no-rebuild --quiet

export PKG_CONFIG_LIBDIR="$stage$libdir/pkgconfig"
export LD_LIBRARY_PATH="$stage$libdir"
