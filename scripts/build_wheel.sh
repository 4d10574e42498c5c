#!/usr/bin/env bash
# Makes an sdist and, from it, a wheel with everything inside that runs on Linux with glibc 2.28 (RHEL
# and Rocky 8, Debian 10, Ubuntu 20.04) or newer, whatever this machine has:
#   scripts/build_wheel.sh    ->  build-wheel/dist/ttrace_torch-*.tar.gz and *.whl
# Compiler and C++ runtime are zig's (package ziglang of PyPI); HDF5 and the other libraries are linked
# in from their sources (scripts/wheel/third_party.txt). Needs python3 with venv, CMake 3.25, git,
# binutils and, for the sources, apt-get of Debian, or these files in build-wheel/sources. No root.
# TTRACE_JOBS is how many compile at once. A second run builds the libraries from what the first one
# left; --again starts from nothing.
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

glibc=2.28
platform=manylinux_${glibc/./_}_x86_64
work=$root/build-wheel
jobs=${TTRACE_JOBS:-$(nproc)}
sources=$work/sources unpacked=$work/unpacked prefix=$work/prefix licences=$work/licences
case ${1:-} in
  --again) rm -rf "$work" ;;
  "") ;;
  *)
    echo "usage: scripts/build_wheel.sh [--again]" >&2
    exit 2
    ;;
esac
if [ "$(uname -sm)" != "Linux x86_64" ]; then
  echo "The wheel is for Linux on x86-64: build it there, or install from source: pip install ./lib/torch" >&2
  exit 2
fi
# shellcheck source=scripts/wheel/third_party.sh
source "$root/scripts/wheel/third_party.sh"

# The tools, of fixed versions, and wrappers that CMake takes for a compiler. Zig writes what debuggers read
# unless -g0 tells it not to, a fifth of the time of compiling for what is stripped in the end; and it takes
# -O1 for -O3 unless clang is told.
make_tools() {
  local tool tools="scikit-build-core==1.1.2 ziglang==0.17.1 ninja>=1.11"
  if [ "$(cat "$work/tools.txt" 2>/dev/null)" != "$tools" ]; then
    say "tools in $work/venv"
    python3 -m venv "$work/venv"
    # shellcheck disable=SC2086
    "$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check $tools
    printf '%s\n' "$tools" >"$work/tools.txt"
  fi
  export PATH=$work/venv/bin:$PATH ZIG_GLOBAL_CACHE_DIR=$work/zig-cache
  zig=$(python -c 'import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).parent / "zig")')
  mkdir -p "$work/zig"
  for tool in cc c++; do
    cat >"$work/zig/$tool" <<END
#!/bin/sh
case " \$* " in *" -O1 "*) set -- "\$@" -Xclang -O1 ;; esac
exec "$zig" $tool -target x86_64-linux-gnu.$glibc -fno-sanitize=undefined -g0 "\$@"
END
  done
  for tool in ar ranlib; do
    printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$zig" "$tool" >"$work/zig/$tool"
  done
  chmod +x "$work/zig"/*
  zig_options=(-DCMAKE_TOOLCHAIN_FILE="$root/scripts/wheel/toolchain.cmake"
    -DTTRACE_ZIG_WRAPPERS="$work/zig" -DCMAKE_PREFIX_PATH="$prefix")
}

# Packs the sdist, and leaves it unpacked in $work/tree.
make_sdist() {
  rm -rf "$work/stage" "$work/tree" "$work/dist"
  mkdir -p "$work/tree" "$work/dist"
  python "$root/scripts/wheel/stage.py" "$work/stage"
  (cd "$work/stage" && python -c '
import sys
from scikit_build_core.build import build_sdist
build_sdist(sys.argv[1])' "$work/dist")
  tar -xf "$work"/dist/*.tar.gz -C "$work/tree" --strip-components=1
}

# The module of --device cuda needs nvcc, and a compiler that nvcc knows. Where one is missing it is left out.
find_cuda() {
  local nvcc host toolkit licence=$licences/cudart.txt
  rm -f "$licence"
  cuda_options=(-DTTRACE_CUDA=OFF)
  if ! nvcc=$(find_nvcc) || ! host=$(command -v g++); then
    say "without ttrace_cuda.so: it needs nvcc (scripts/setup.sh --cuda installs it) and g++"
    return
  fi
  # The nvcc in a PATH may be a link, or a script that starts another.
  toolkit=$(realpath "$("$nvcc" --dryrun -c x.cu 2>&1 | sed -n 's/^#\$ TOP=//p')")
  say "with ttrace_cuda.so, of $toolkit"
  first_file "$toolkit/EULA.txt" "$toolkit"/dist-info/nvidia_cuda_runtime-*/licenses/License.txt \
    "$toolkit"/../../nvidia_cuda_runtime-*/licenses/License.txt >"$work/eula" || {
    echo "$toolkit has no licence of the CUDA runtime, which the wheel must hold." >&2
    exit 2
  }
  cp "$(cat "$work/eula")" "$licence"
  # librt is zig's, which CMake would not find.
  cuda_options=(-DTTRACE_CUDA=ON -DCUDAToolkit_ROOT="$toolkit" -DCUDAToolkit_rt_LIBRARY=rt
    -DTTRACE_CUDA_HOST_COMPILER="$host")
}

make_wheel() {
  local settings=() option
  find_cuda
  for option in "${zig_options[@]}" "${cuda_options[@]}" -DHDF5_ROOT="$prefix" -DHDF5_USE_STATIC_LIBRARIES=ON \
    -DTTRACE_LICENCES="$licences"; do
    option=${option#-D}
    settings+=(--config-settings "cmake.define.${option%%=*}=${option#*=}")
  done
  CMAKE_BUILD_PARALLEL_LEVEL=$jobs python -m pip wheel --quiet --disable-pip-version-check --no-deps \
    --no-build-isolation --wheel-dir "$work/dist" "${settings[@]}" \
    --config-settings "wheel.tags=py3-none-$platform" "$work/tree"
}

# timed WHAT COMMAND: how long it takes, and in seconds of processors, which is the same on a busy machine.
timed() {
  local what=$1 before
  shift
  SECONDS=0
  read_processors
  before=$processors
  "$@"
  read_processors
  say "$what: $SECONDS s, $((processors - before)) s of processors"
}

# Of all programs that this shell has waited for; a subshell would count its own.
read_processors() {
  times >"$work/times"
  processors=$(awk -F'[ms ]+' 'NR == 2 { print int(60 * ($1 + $3) + $2 + $4) }' "$work/times")
}

sdist_and_wheel() {
  make_sdist
  make_wheel
}

mkdir -p "$work"
make_tools
timed "third-party libraries" build_third_party
timed "sdist, and a wheel from it" sdist_and_wheel
python "$root/scripts/wheel/check_wheel.py" --glibc "$glibc" "$work"/dist/*.whl
ls -l "$work/dist"
