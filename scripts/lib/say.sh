# shellcheck shell=bash
# Messages, stage times and failures. All of it goes to stderr: stdout belongs to the result.

exit_environment=4  # the same number the program uses when the environment lacks something
stage_names=()
stage_seconds=()

say() { printf 'runmax: %s\n' "$*" >&2; }

# fail STEP WHAT FIX: names the step, what is wrong and what to do, and ends the script.
fail() {
  printf 'runmax: %s failed: %s\n        fix: %s\n' "$1" "$2" "$3" >&2
  exit "$exit_environment"
}

# stage NAME COMMAND...: runs one step and remembers how long it took; returns the command's status.
stage() {
  local name=$1 started=$SECONDS status=0
  shift
  say "== $name"
  "$@" || status=$?
  stage_names+=("$name")
  stage_seconds+=($((SECONDS - started)))
  return "$status"
}

# One line for each stage that ran, with its seconds.
print_stage_times() {
  local i
  for i in "${!stage_names[@]}"; do
    printf 'runmax: %5d s  %s\n' "${stage_seconds[$i]}" "${stage_names[$i]}" >&2
  done
  printf 'runmax: %5d s  in all\n' "$SECONDS" >&2
}

# show_progress LABEL LOG: reads the lines of a long command, keeps them in LOG, and shows how far it is, in place on
# a terminal, else in one line every 15 seconds. A line that begins with a count (ninja's "[3/28] ...", ctest's
# " 3/28 Test ...") tells it; of other commands the latest line is shown.
show_progress() {
  local label=$1 log=$2 line text="" shown=$SECONDS drawn=0 count='^\[?[[:space:]]*([0-9]+)/([0-9]+)[] ]'
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$log"
    if [[ $line =~ $count ]]; then
      text="$label ${BASH_REMATCH[1]}/${BASH_REMATCH[2]} ($((100 * BASH_REMATCH[1] / BASH_REMATCH[2])) %)"
    elif [[ -z $text || $text == "$label: "* ]]; then
      text="$label: ${line:0:90}"
    fi
    if [[ -t 2 && ${TERM:-dumb} != dumb ]]; then
      printf '\r\033[Krunmax: %s' "$text" >&2
      drawn=1
    elif ((SECONDS - shown >= 15)); then
      say "$text"
      shown=$SECONDS
    fi
  done
  if ((drawn)); then printf '\r\033[K' >&2; fi
}
