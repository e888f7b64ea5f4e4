# shellcheck shell=bash
# axe-core, which looks for what keeps people from using a page: one JavaScript file, out of the package that carries it.

axe_package=axe-playwright-python==0.1.8
axe_sha256=fdd263c998388f1a8e67cad02677e612d946248bd44d163be5e8650ea31f95f8

# Puts build/axe.min.js there, from PyPI and with the known hash. Where that cannot be had, says so: its test is skipped.
fetch_axe() {
  [[ -f build/axe.min.js && $(cat build/axe.version 2>/dev/null) == "$axe_package" ]] && return 0
  local python candidate folder log
  for candidate in python3 /usr/bin/python3; do
    if "$candidate" -m pip --version >/dev/null 2>&1; then
      python=$candidate
      break
    fi
  done
  if [[ -z ${python:-} ]]; then
    say "axe-core cannot be fetched, so its test is skipped: no python3 with pip (apt-get install python3-pip)"
    return 0
  fi
  mkdir -p build
  folder=$(mktemp -d) log=build/axe.log
  printf '%s --hash=sha256:%s\n' "$axe_package" "$axe_sha256" >"$folder/wanted"
  if "$python" -m pip download -q --no-deps --require-hashes -d "$folder" -r "$folder/wanted" >"$log" 2>&1 </dev/null &&
    "$python" -c 'import sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
name = next(n for n in wheel.namelist() if n.endswith("axe.min.js"))
open("build/axe.min.js", "wb").write(wheel.read(name))' "$folder"/*.whl >>"$log" 2>&1; then
    printf '%s\n' "$axe_package" >build/axe.version
  else
    say "axe-core cannot be fetched, so its test is skipped: $(tail -1 "$log")"
  fi
  rm -rf "$folder"
}
