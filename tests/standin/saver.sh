# SPDX-License-Identifier: Apache-2.0
# Words for a fake training that saves files: step; save FILE [new]; folder PATH; die. To be sourced: a start that resumes ends
# there, unless $again is set.
made=0
say() { printf '{"v":1,"rank":0,"pid":%d,%s}\n' $$ "$1" >&"$BATCHFIT_FD"; }
# File systems keep the time of the last tick: a row must not be told in the same as the one before.
step() { sleep 0.02; made=$((made + 1)); say '"event":"step","step":'$made',"samples":8'; }
# "new": its folder was made since the last step.
save() {
    mkdir -p "${1%/*}"
    echo state > "$1"
    say '"event":"phase","phase":"checkpoint","path":"'"$PWD/$1"'","at":'"$(date +%s.%N)${2:+,\"new_folder\":true}"
}
folder() { say '"event":"phase","phase":"checkpoint","path":"'"$PWD/$1"'","at":'"$(date +%s.%N)"; }
# By a signal that nothing explains, as soon as batchfit has read what was said.
die() { sleep 0.3; kill -9 $$; }
say '"event":"start","framework":"standin"'
echo "resume ${1:-nothing}"
[ $# -eq 0 ] || [ -n "$again" ] || exit 0
