# Started by the host with one end of a pipe as stdin; $1 is the host's mark.
# Reads "+ GROUP", "- GROUP" and "~ GROUP TERM KILL". End of file means that the host is gone: every
# group and every marked process is asked to end, and what is left 0.4 seconds later is killed.
# Before that, each group of a "~" line, which the host has left while it was stopping, has its time:
# SIGTERM after TERM tenths of a second ("-": it was sent), SIGKILL after KILL.
trap '' HUP INT QUIT TERM USR1 USR2 TSTP TTIN TTOU
PATH=/usr/bin:/bin:/usr/sbin:/sbin:/run/current-system/sw/bin
export PATH
mark=$1
all= left_behind=
# A variable for each group: to take one out of a list means to read the list.
while read -r verb group term end; do
    case $group in '' | *[!0-9]*) continue ;; esac
    case $verb in
    +) all="$all $group" && eval "live_$group=1" ;;
    '~') left_behind="$left_behind $group:$term:$end" ;;
    -) unset "live_$group" ;;
    esac
done
live=
for group in $all; do
    if eval "[ -n \"\${live_$group-}\" ]"; then
        live="$live $group"
        unset "live_$group"
    fi
done
tick=0
while [ -n "$left_behind" ]; do
    stopping= count=0
    for entry in $left_behind; do
        group=${entry%%:*} term=${entry#*:} end=${entry##*:}
        term=${term%:*}
        kill -s 0 -- "-$group" 2>/dev/null || continue
        if [ "$tick" -ge "$end" ]; then
            kill -s KILL -- "-$group" 2>/dev/null
            continue
        fi
        if [ "$term" != - ] && [ "$tick" -ge "$term" ]; then
            kill -s CONT -- "-$group" 2>/dev/null
            kill -s TERM -- "-$group" 2>/dev/null
            term=-
        fi
        stopping="$stopping $group:$term:$end" count=$((count + 1))
    done
    left_behind=$stopping
    [ -n "$left_behind" ] || break
    # A look at hundreds takes time that they need to stop.
    if [ "$count" -gt 200 ]; then step=5; else step=1; fi
    if sleep "0.$step" 2>/dev/null; then tick=$((tick + step)); else sleep 1 && tick=$((tick + 10)); fi
done
look() {
    found=
    for file in $(grep -lsaF -e "$mark" /proc/[0-9]*/environ 2>/dev/null); do
        file=${file#/proc/}
        found="$found ${file%/environ}"
    done
    left=$found
    for group in $live; do
        kill -s 0 -- "-$group" 2>/dev/null && left="$left $group"
    done
}
send() {
    for group in $live; do kill -s "$1" -- "-$group" 2>/dev/null; done
    for pid in $found; do kill -s "$1" "$pid" 2>/dev/null; done
}
look
send CONT
send TERM
for tick in 1 2 3 4; do
    look
    [ -n "$left" ] || break
    sleep 0.1 2>/dev/null || sleep 1
done
# Processes that fork and exit every few milliseconds are gone before `look` ends: the most recent
# ids are watched, using only builtins, and each match is killed as soon as it is seen.
chase() {
    read -r _ _ _ _ last </proc/loadavg || return
    quiet=0 killed=0
    while [ "$quiet" -lt 500 ] && [ "$killed" -lt 1000 ]; do
        read -r _ _ _ _ now </proc/loadavg
        while [ "$last" -lt "$now" ]; do
            last=$((last + 1))
            while IFS= read -r line || [ -n "$line" ]; do
                case $line in
                *"$mark"*)
                    kill -s KILL "$last"
                    quiet=0 killed=$((killed + 1))
                    break
                    ;;
                esac
            done 2>/dev/null <"/proc/$last/environ"
        done
        quiet=$((quiet + 1))
    done 2>/dev/null
}
empty=0
for round in 1 2 3 4 5 6 7 8 9 10; do
    send KILL
    chase
    look
    if [ -n "$left" ]; then empty=0; else empty=$((empty + 1)); fi
    [ "$empty" -lt 2 ] || exit 0
done
