#!/usr/bin/env bash
# Makes .venv-frameworks, in which tests/frameworks and tests/real_size train with real frameworks,
# and prints the path of its interpreter. With --hunt it holds what only scripts/hunt.sh needs, too.
# Nothing is installed twice; TTRACE_FRAMEWORKS_VENV names another place.
# shellcheck source=scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

tests_venv=$venv
venv=${TTRACE_FRAMEWORKS_VENV:-$root/.venv-frameworks}
# torch and what else the tests need is taken from the environment of the tests.
packages=(einops transformers==5.23.0)
# DeepSpeed is built from its source, with the torch that is there by then.
built=(deepspeed==0.19.8)
# Megatron-core asks for numpy 1 and for packages that it does not need here.
# accelerate and peft would check what is installed already.
alone=(megatron-core==0.16.1 accelerate==1.15.0 peft==0.21.2)
# Older versions, each in a folder of its own: $venv/older/megatron-core==0.15.3 goes on PYTHONPATH.
older=(megatron-core==0.15.3 megatron-core==0.14.0 megatron-core==0.13.1)
# Of the hunt alone.
hunted=(datasets==5.2.0)
hunted_alone=(trl==1.16.0)
install=(-m pip install --quiet --disable-pip-version-check)

# Tests that run side by side ask for it at once.
mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
if command -v flock >/dev/null; then flock 9; fi
stamp=$venv/ttrace-requirements.txt
wanted="$(cat "$root/tests/requirements.txt") ${packages[*]} ${built[*]} ${alone[*]} ${older[*]}"
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
  {
    venv=$tests_venv make_venv
    python3 -m venv "$venv"
    "$tests_venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
      >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tests.pth"
    "$venv/bin/python" "${install[@]}" "${packages[@]}"
    "$venv/bin/python" "${install[@]}" setuptools wheel
    "$venv/bin/python" "${install[@]}" --no-build-isolation "${built[@]}"
    "$venv/bin/python" "${install[@]}" --no-deps "${alone[@]}"
    for one in "${older[@]}"; do
      "$venv/bin/python" "${install[@]}" --no-deps --upgrade --target "$venv/older/$one" "$one"
    done
  } >&2
  printf '%s\n' "$wanted" >"$stamp"
fi
stamp=$venv/ttrace-hunt.txt
wanted="${hunted[*]} ${hunted_alone[*]}"
if [ "${1:-}" = --hunt ] && { [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; }; then
  {
    "$venv/bin/python" "${install[@]}" "${hunted[@]}"
    "$venv/bin/python" "${install[@]}" --no-deps "${hunted_alone[@]}"
  } >&2
  printf '%s\n' "$wanted" >"$stamp"
fi
echo "$venv/bin/python"
