# What a job does here, and writes down by itself: job.sh BATCH HOW SECONDS
# All its processes hold the lock, so whoever cannot have it runs beside another run of the same job.
key=${QUEUECTL_RUN#*.} # number.lease
number=${key%.*}
exec 9>>"locks/$number"
flock -n 9 || { echo "twice $key $1 $QUEUECTL_JOB_ID" >>records; exit 70; }
echo "begin $key $1 $QUEUECTL_JOB_ID" >>records
code=0
case $2 in
fail) sleep "$3"; code=3 ;;
shaky) sleep "$3"; [ -e "tried/$number" ] || code=4; : >"tried/$number" ;;
loud) head -c 60000 /dev/zero | tr '\0' x; sleep "$3" ;;
tree) setsid sleep "$3" & (trap '' TERM; sleep "$3") & sleep "$3"; wait ;;
stubborn) trap '' TERM; sleep 20 ;;
*) sleep "$3" ;;
esac
echo "end $key $1 $QUEUECTL_JOB_ID $code" >>records
exit $code
