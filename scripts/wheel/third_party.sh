# Sourced by scripts/build_wheel.sh: fetches, checks and builds what a wheel has linked in. Each library is
# built once; a changed line of third_party.txt or a changed compiler needs a new folder.
# shellcheck shell=bash
# The folders, the tools and their options are set by the script that sources this one.
# shellcheck disable=SC2154

wheel_scripts=$root/scripts/wheel

# The apt of this machine with a list of its own, which needs no root and changes nothing: packages of
# Debian 12 and of later releases, from wherever this machine gets its packages.
private_apt() {
  local state=$work/apt command=$1
  shift
  "$command" -o APT::Sandbox::User="$(id -un)" -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$state/sources" \
    -o Dir::State::lists="$state/lists" -o Dir::Cache="$state/cache" "$@"
}

prepare_apt() {
  local state=$work/apt file later="trixie forky sid"
  [ ! -d "$state/lists" ] || return 0
  mkdir -p "$state/sources" "$state/lists/partial" "$state/cache/archives/partial"
  file=/etc/apt/sources.list.d/debian.sources
  if [ -f "$file" ]; then
    sed 's/^Types:.*/Types: deb deb-src/' "$file" >"$state/sources/debian.sources"
    # One paragraph is the archive's; the other is that of security updates.
    awk -v RS= -v ORS='\n\n' '!/\nSuites:[^\n]*-security/' "$state/sources/debian.sources" |
      sed "s/^Suites:.*/Suites: $later/" >"$state/sources/later.sources"
  fi
  if [ -f /etc/apt/sources.list ]; then
    sed -n 's/^deb /deb-src /p; /^deb /p' /etc/apt/sources.list >"$state/sources/more.list"
    for file in $later; do
      sed -n "s/ bookworm main.*/ $file main/p" "$state/sources/more.list" >"$state/sources/more-$file.list"
    done
  fi
  private_apt apt-get update -qq
}

# fetch NAME PACKAGE VERSION FILE SHA256: into $sources, unless it is there.
fetch() {
  local file=$sources/$4
  if [ ! -f "$file" ]; then
    command -v apt-get >/dev/null && prepare_apt
    (
      cd "$sources"
      private_apt apt-get source -qq --download-only --tar-only "$2=$3"
    ) || {
      echo "Cannot fetch $4. It is of Debian's package $2, version $3, which snapshot.debian.org" \
        "keeps: put it into $sources." >&2
      exit 2
    }
  fi
  echo "$5  $file" | sha256sum --check --quiet >&2 || {
    echo "$file is not the one that scripts/wheel/third_party.txt names: remove it." >&2
    exit 2
  }
}

# unpack NAME FILE
unpack() {
  local folder=$unpacked/$1
  [ ! -d "$folder" ] || return 0
  mkdir -p "$folder"
  tar -xf "$sources/$2" -C "$folder" --strip-components=1
}

# The checks of ttrace_hardening (cmake/TtraceBuild.cmake), for code that is not ours.
hardening="-fstack-protector-strong -fcf-protection -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2"
hardening_cxx="-U_LIBCPP_HARDENING_MODE -D_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_FAST"

# build_library NAME FOLDER [-D...]
build_library() {
  local name=$1 folder=$2 stamp=$prefix/$1.built
  shift 2
  [ ! -f "$stamp" ] || return 0
  say "$name"
  mkdir -p "$work/third_party/$name"
  {
    # HDF5 tries programs that write where CMake was started.
    cd "$work/third_party/$name" && cmake -S "$folder" -B . -G Ninja "${zig_options[@]}" \
      -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
      -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_C_FLAGS="$hardening" \
      -DCMAKE_CXX_FLAGS="$hardening $hardening_cxx" "$@" &&
      cmake --build . --parallel "$jobs" &&
      cmake --install . &&
      cd "$root"
  } >"$work/$name.log" 2>&1 || {
    tail -n 40 "$work/$name.log" >&2
    echo "$name does not build; all of it: $work/$name.log" >&2
    exit 2
  }
  touch "$stamp"
}

# Sets of licences: one file for each library that is linked in, and for zig's C++ runtime.
keep_licences() {
  local zig_lib name
  mkdir -p "$licences"
  for name in fmt/LICENSE spdlog/LICENSE zlib/LICENSE libdeflate/COPYING cli11/LICENSE \
    nlohmann-json/LICENSE.MIT hdf5/COPYING hdf5/COPYING_LBNL_HDF5; do
    cp "$unpacked/$name" "$licences/${name%%/*}.$(basename "$name" | sed 's/\.[A-Za-z]*$//').txt"
  done
  zig_lib=$(dirname "$zig")/lib
  for name in libcxx libcxxabi libunwind; do
    cp "$zig_lib/$name/LICENSE.TXT" "$licences/$name.txt"
  done
  cp "$(dirname "$zig")/LICENSE" "$licences/zig.txt"
}

build_third_party() {
  local name package version file sum
  mkdir -p "$sources" "$unpacked" "$prefix/lib" "$prefix/include"
  while read -r name package version file sum; do
    case $name in '#'* | '') continue ;; esac
    fetch "$name" "$package" "$version" "$file" "$sum"
    unpack "$name" "$file"
  done <"$wheel_scripts/third_party.txt"
  build_library zlib_and_libdeflate "$wheel_scripts/zlib_and_libdeflate" -DSOURCES="$unpacked"
  # fmt 11.1.1 calls malloc and free without including what declares them.
  local with_malloc="-DCMAKE_CXX_FLAGS=$hardening $hardening_cxx -include cstdlib"
  build_library fmt "$unpacked/fmt" -DFMT_TEST=OFF -DFMT_DOC=OFF "$with_malloc"
  build_library spdlog "$unpacked/spdlog" -DSPDLOG_FMT_EXTERNAL=ON -DSPDLOG_BUILD_EXAMPLE=OFF "$with_malloc"
  build_library cli11 "$unpacked/cli11" -DCLI11_BUILD_TESTS=OFF -DCLI11_BUILD_EXAMPLES=OFF \
    -DCLI11_BUILD_DOCS=OFF -DCLI11_SINGLE_FILE=OFF
  build_library nlohmann-json "$unpacked/nlohmann-json" -DJSON_BuildTests=OFF
  # No trace may have szip, and elements of a trace are read as they are stored.
  build_library hdf5 "$unpacked/hdf5" -DBUILD_TESTING=OFF -DHDF5_BUILD_TOOLS=OFF \
    -DHDF5_BUILD_EXAMPLES=OFF -DHDF5_BUILD_HL_LIB=OFF -DHDF5_BUILD_CPP_LIB=OFF \
    -DHDF5_BUILD_FORTRAN=OFF -DHDF5_BUILD_JAVA=OFF -DHDF5_ENABLE_Z_LIB_SUPPORT=ON \
    -DHDF5_ENABLE_SZIP_SUPPORT=OFF -DHDF5_ENABLE_NONSTANDARD_FEATURES=OFF \
    -DHDF5_ENABLE_ALL_WARNINGS=OFF -DCMAKE_C_FLAGS="-w $hardening"
  rm -f "$prefix"/bin/h5*cc  # CMake would believe them, and they name another compiler
  keep_licences
}
