# SPDX-License-Identifier: Apache-2.0
# Words for a fake training that saves files: step; save FILE [new]; folder PATH; renamed PATH FROM; die. To be sourced: a start
# that resumes reads what its first word names, and ends there, unless $again is set.
made=0 row=0 file=',"by":"torch.save"'
say() { printf '{"v":1,"rank":0,"pid":%d,%s}\n' $$ "$1" >&"$BATCHFIT_FD"; }
told() { say '"event":"checkpoint","state":"'"$1"'","path":"'"$PWD/$2"'","at":'"$(date +%s.%N)$3"; }
# File systems keep the time of the last tick: a row must not be told in the same as the one before.
step() {
    [ $row -lt 2 ] || told end "$row_folder" ',"by":"files"'
    row=0; sleep 0.02; made=$((made + 1)); say '"event":"step","step":'$made',"samples":8'
}
# "new": its folder was made since the last step; with a number in its name it may be the checkpoint, as the emitter says then.
save() {
    mkdir -p "${1%/*}"
    told begin "$1" "$file"
    echo state > "$1"
    case "${2:+$(basename "${1%/*}")}" in
    *[0-9]*)
        row=$((row + 1)) row_folder=${1%/*}
        told end "$1" "$file,\"folder\":\"$PWD/$row_folder\"";;
    *) told end "$1" "$file";;
    esac
}
folder() { told begin "$1"; told end "$1"; }
renamed() { told renamed "$1" ',"from":"'"$PWD/$2"'"'; [ "$row_folder" != "$2" ] || row_folder=$1; }
# By a signal that nothing explains, as soon as batchfit has read what was said.
die() { sleep 0.3; kill -9 $$; }
say '"event":"start","framework":"standin"'
echo "resume ${1:-nothing}"
[ ! -e "$1" ] || find "$1" -type f -exec cat '{}' + >/dev/null
[ $# -eq 0 ] || [ -n "$again" ] || exit 0
