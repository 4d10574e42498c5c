# Sourced by the other scripts: installs what a step needs and builds. Nothing is installed twice.
# Run as a program, it installs the packages alone:
#   scripts/setup.sh [--cuda]
# --cuda: also what the module of --device cuda is built with and uses: nvcc and cuBLAS, those of this
# machine or else Python packages in a virtual environment (TTRACE_CUDA_VENV, by default .venv-cuda).
# shellcheck shell=bash
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${TTRACE_BUILD_DIR:-$root/build}
venv=${TTRACE_VENV:-$root/.venv}

say() { printf '\n== %s\n' "$*"; }

# Debian and Ubuntu package, and what it is called elsewhere: what the program is built from, and what
# only the tests need.
packages_to_build=(
  "g++|a C++20 compiler: g++ 12 or newer, or clang 16 or newer"
  "cmake|CMake 3.25 or newer"
  "ninja-build|ninja"
  "libcli11-dev|CLI11 (Fedora: cli11-devel, Arch: cli11, Homebrew: cli11)"
  "libhdf5-dev|HDF5 with its C library and headers (Fedora: hdf5-devel, Arch and Homebrew: hdf5)"
  "libdeflate-dev|libdeflate, or else zlib is used (Fedora: libdeflate-devel, Arch and Homebrew: libdeflate)"
  "nlohmann-json3-dev|nlohmann/json (Fedora: json-devel, Arch and Homebrew: nlohmann-json)"
  "libspdlog-dev|spdlog (Fedora: spdlog-devel, Arch and Homebrew: spdlog)"
)
packages_to_test=(
  "libopenmpi-dev|optional, for comparing under mpirun: Open MPI or another MPI, with headers"
  "openmpi-bin|mpirun (part of Open MPI elsewhere)"
  "catch2|Catch2, 2.13 or 3 (Fedora: catch-devel, Arch: catch2-v2 or catch2, Homebrew: catch2)"
  "hdf5-tools|h5dump (part of hdf5 elsewhere)"
  "python3|Python 3.9 or newer"
  "python3-venv|Python's venv module (part of Python elsewhere)"
)
packages=("${packages_to_build[@]}" "${packages_to_test[@]}")

list_packages_elsewhere() {
  echo "This machine has no apt-get. Install these with its package manager, then run" >&2
  echo "  cmake -B build && cmake --build build" >&2
  local entry
  for entry in "${packages[@]}"; do echo "  - ${entry#*|}" >&2; done
}

# A tool or header that is there already, from wherever, needs no package.
have() {
  case $1 in
    g++) command -v c++ ;;
    cmake) command -v cmake ;;
    ninja-build) command -v ninja ;;
    hdf5-tools) command -v h5dump ;;
    python3) command -v python3 ;;
    python3-venv) python3 -c 'import venv, ensurepip' ;;
    *) dpkg -s "$1" ;;
  esac >/dev/null 2>&1
}

# install_packages PACKAGE...: entries of the lists above.
install_packages() {
  local missing=() entry sudo=()
  if ! command -v apt-get >/dev/null; then
    if ! command -v cmake >/dev/null; then
      list_packages_elsewhere
      exit 2
    fi
    echo "This machine has no apt-get; going on with what is installed." >&2
    trap 'list_packages_elsewhere' ERR
    return
  fi
  for entry in "$@"; do
    have "${entry%%|*}" || missing+=("${entry%%|*}")
  done
  [ ${#missing[@]} -eq 0 ] && return
  say "installing ${missing[*]}"
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "Run as root, or install yourself: apt-get install ${missing[*]}" >&2
      exit 2
    fi
    sudo=(sudo)
  fi
  "${sudo[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null
}

# For tests/page. Not every distribution has the package, and the tests say so where there is no browser.
install_browser() {
  local name
  for name in chromium chromium-browser google-chrome chrome; do
    ! command -v "$name" >/dev/null || return 0
  done
  (install_packages "chromium|Chromium or Chrome, for the tests of the page") ||
    echo "No browser could be installed: tests/page will be skipped." >&2
}

# How many sources a batch has. Every batch reads the same headers and makes the same templates, so a
# room at once (0) takes a quarter less time than sixteen sources, but 1.6 GB.
batch_size() {
  local kib limit file
  kib=$(sed -n 's/^MemAvailable: *\([0-9]*\).*/\1/p' /proc/meminfo 2>/dev/null) || true
  for file in /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes; do
    limit=$(cat "$file" 2>/dev/null) || continue
    case $limit in
      '' | *[!0-9]*) ;;  # "max": none
      *) [ "$((limit / 1024))" -ge "${kib:-0}" ] || kib=$((limit / 1024)) ;;
    esac
  done
  if [ "${kib:-0}" -ge $((2500000 * $(nproc))) ]; then echo 0; else echo 16; fi
}

# configure [-D...]: makes the build folder, or changes these options of an old one. A new one builds
# in batches, several sources at once, which takes half the time or less; for developing, make the
# folder with `cmake -B build` first.
configure() {
  local options=("$@")
  if [ ! -f "$build/CMakeCache.txt" ]; then
    options+=(-DCMAKE_UNITY_BUILD=ON "-DCMAKE_UNITY_BUILD_BATCH_SIZE=$(batch_size)")
    ! command -v ninja >/dev/null || options+=(-G Ninja)
  fi
  cmake -S "$root" -B "$build" "${options[@]}" >"$build.log" 2>&1 || {
    cat "$build.log" >&2
    exit 2
  }
  rm -f "$build.log"
}

# compile [cmake --build arguments]
compile() {
  say "building in $build"
  cmake --build "$build" --parallel "$(nproc)" "$@"
}

# The program alone, with no more packages than it needs.
build_program() {
  install_packages "${packages_to_build[@]}"
  [ -f "$build/CMakeCache.txt" ] || configure -DTTRACE_BUILD_TESTS=OFF
  compile --target ttrace
}

# What makes the traces of benchmarks. It is a tool of the tests, and built with them.
build_synth() {
  export TTRACE_SYNTH=${TTRACE_SYNTH:-$build/tests/ttrace_synth}
  [ -x "$TTRACE_SYNTH" ] && return
  install_packages "${packages[@]}"
  configure -DTTRACE_BUILD_TESTS=ON
  compile --target ttrace_synth
}

# A virtual environment with what the Python tests need; made again when the list changes.
make_venv() {
  local wanted stamp
  wanted=$(cat "$root/tests/requirements.txt")
  stamp=$venv/ttrace-requirements.txt
  if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
    say "Python packages for the tests in $venv"
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
      -r "$root/tests/requirements.txt"
    printf '%s\n' "$wanted" >"$stamp"
  fi
}

cuda_venv=${TTRACE_CUDA_VENV:-$root/.venv-cuda}
# The newest toolkit of these packages has one layout, below nvidia/cu13 in site-packages.
nvcc_packages=("nvidia-cuda-nvcc>=13,<14" "nvidia-cuda-runtime>=13,<14" "nvidia-cuda-cccl>=13,<14")
cublas_package="nvidia-cublas>=13,<14"

cuda_site() { echo "$cuda_venv"/lib/python3*/site-packages/nvidia/cu13; }

install_in_cuda_venv() {
  say "installing $* in $cuda_venv"
  [ -x "$cuda_venv/bin/python" ] || python3 -m venv "$cuda_venv"
  "$cuda_venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
}

# The first argument that is a file; fails if none is.
first_file() {
  local file
  for file in "$@"; do
    if [ -f "$file" ]; then
      echo "$file"
      return
    fi
  done
  return 1
}

# nvcc of this machine, or that of the virtual environment. Fails if there is neither.
find_nvcc() {
  command -v nvcc || first_file /usr/local/cuda*/bin/nvcc "$(cuda_site)/bin/nvcc"
}

# cuBLAS as the loader finds it, of a toolkit, or of the virtual environment.
find_cublas() {
  local known
  known=$( (ldconfig -p 2>/dev/null || true) | awk '/libcublas\.so\.1[23] / {print $NF; exit}')
  first_file ${known:+"$known"} /usr/local/cuda*/lib64/libcublas.so.1[23] \
    "$(cuda_site)/lib/libcublas.so.13"
}

# Installs what is missing, and says what there is and how to use it.
install_cuda() {
  local nvcc cublas
  find_nvcc >/dev/null || install_in_cuda_venv "${nvcc_packages[@]}"
  find_cublas >/dev/null || install_in_cuda_venv "$cublas_package"
  nvcc=$(find_nvcc) || { echo "no nvcc, and its Python package has none either" >&2; exit 2; }
  cublas=$(find_cublas) || { echo "no cuBLAS, and its Python package has none either" >&2; exit 2; }
  say "CUDA"
  echo "nvcc:   $nvcc ($("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p'))"
  echo "cuBLAS: $cublas"
  if command -v nvidia-smi >/dev/null; then
    echo "driver: $(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)"
  else
    echo "driver: none on this machine; the module is built, and says so when it is used"
  fi
  if [ "$nvcc" = "$(cuda_site)/bin/nvcc" ]; then
    # CMake looks for the name without a version.
    ln -sf libcudart.so.13 "$(cuda_site)/lib/libcudart.so"
    echo "Build with: cmake -B build -DCUDAToolkit_ROOT=$(cuda_site)"
  else
    echo "Build with: cmake -B build"
  fi
  case $cublas in
    "$cuda_venv"/*) echo "Run with:   TTRACE_CUBLAS=$cublas" ;;
  esac
}

# Runs a module of tests/ in the environment of the frameworks, with one thread for each process.
#   run_study MODULE ARGUMENTS...
run_study() {
  local python
  export TTRACE=${TTRACE:-$build/ttrace}
  [ -x "$TTRACE" ] || build_program
  python=$("$root/scripts/frameworks_venv.sh")
  export PYTHONPATH=$root/lib/torch:$root/tests:$root/tests/frameworks OMP_NUM_THREADS=1
  exec "$python" -m "$@"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  case ${1:-} in
    --cuda)
      install_packages "${packages[@]}"
      install_cuda
      ;;
    "") install_packages "${packages[@]}" ;;
    *)
      echo "usage: scripts/setup.sh [--cuda]" >&2
      exit 2
      ;;
  esac
fi
