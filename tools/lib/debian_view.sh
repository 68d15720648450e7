# Sourced by scripts that read Debian releases other than the machine's own. A view has its own
# sources, lists and cache in a folder; the machine's are left alone, and no rights are needed.
#   debian_view_open FOLDER SUITE...   makes the view and reads the lists; 1 and a message if it cannot;
#                                      debian_view_types="deb deb-src" has source packages, too
#   debian_view apt-get|apt-cache ARG...   runs the tool in the open view

# Where the machine takes Debian's main archive from: the entry of a suite of its own, no -updates or
# -security. Before the first `apt-get update` origins are unknown, and the suite's name must do.
debian_mirror() {
  . /etc/os-release
  apt-get indextargets --format '$(ORIGIN)|$(RELEASE)|$(COMPONENT)|$(REPO_URI)' \
      'Created-By: Packages' 2>/dev/null |
    awk -F'|' -v release="${VERSION_CODENAME:-}" '
      $3 != "main" || $2 ~ /-/ { next }
      $1 == "Debian" || ($1 == "" && $2 == release) { print $4; exit }'
}

debian_view_open() {
  debian_view_folder=$1
  shift
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
    echo "no apt on this machine: Debian packages cannot be read" >&2
    return 1
  }
  mkdir -p "$debian_view_folder/lists/partial" "$debian_view_folder/cache/archives/partial"
  debian_view_uri=$(debian_mirror)
  [ -n "$debian_view_uri" ] || {
    echo "this machine's apt names no Debian archive (see: apt-get indextargets)" >&2
    return 1
  }
  for suite in "$@"; do
    for type in ${debian_view_types:-deb}; do
      printf '%s %s %s main\n' "$type" "$debian_view_uri" "$suite"
    done
  done > "$debian_view_folder/sources.list"
  if ! debian_view apt-get -o Acquire::Retries=2 -o APT::Update::Error-Mode=any update \
      > "$debian_view_folder/log" 2>&1; then
    echo "the Debian archive cannot be read ($*):" >&2
    grep -E '^(E|W|Err)' "$debian_view_folder/log" | tail -n 4 >&2
    return 1
  fi
}

debian_view() {
  debian_view_tool=$1
  shift
  "$debian_view_tool" -q -o Dir::State::lists="$debian_view_folder/lists" \
    -o Dir::Cache="$debian_view_folder/cache" \
    -o Dir::Etc::sourcelist="$debian_view_folder/sources.list" -o Dir::Etc::sourceparts=- \
    -o Dir::Etc::preferences=- -o Dir::Etc::preferencesparts=- -o APT::Get::List-Cleanup=0 \
    -o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none -o Debug::NoLocking=1 "$@"
}
