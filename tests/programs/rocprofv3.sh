#!/bin/sh
# Acts as rocprofv3: runs a command, counts its dispatches with this project's library, and writes a table of counters as rocprofv3
# does, when the command has ended in order. The value of SQ_WAVES is that of the dispatch; of another counter it is 1000 for each letter
# of its name, plus the number of the dispatch in its process.
#
# STAND_IN_LIBRARY   liblogdur.so
# STAND_IN_ROOM      how many counters fit one pass
# STAND_IN_EXCESS    what happens to more: `error`, `abort`, or `skip`, which leaves them out
# STAND_IN_UNKNOWN   a counter that does not exist
# STAND_IN_WRITES    what is written: `table`, `none`, `short` (without the last dispatch), `other` (a table of something else)
# STAND_IN_CALLS     a file with a line for each call: its counters
set -u
[ "$1" = --pmc ] || exit 2
shift
counters=
while [ $# -gt 0 ]; do
    case $1 in
    -*) break ;;
    *) counters="$counters $1" ;;
    esac
    shift
done
tables=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    case $1 in
    -d) tables=$2; shift 2 ;;
    --output-format) [ "$2" = csv ] || exit 2; shift 2 ;;
    --mangled-kernels) shift ;;
    *) echo "unknown option $1" >&2; exit 2 ;;
    esac
done
shift
echo "$counters" >> "$STAND_IN_CALLS"
for counter in $counters; do
    if [ "$counter" = "${STAND_IN_UNKNOWN-}" ]; then
        echo "rocprofv3: Unable to find counter $counter" >&2
        exit 1
    fi
done
room=${STAND_IN_ROOM-100}
if [ "$(echo "$counters" | wc -w)" -gt "$room" ]; then
    case $STAND_IN_EXCESS in
    error) echo "Request exceeds the capabilities of the hardware to collect" >&2; exit 1 ;;
    abort) echo "Request exceeds the capabilities of the hardware to collect" >&2; kill -ABRT $$ ;;
    skip) counters=$(echo $counters | cut -d ' ' -f "1-$room") ;;
    esac
fi
mkdir -p "$tables/host"
log=$tables/log.csv
HSA_TOOLS_LIB=$STAND_IN_LIBRARY HSA_TOOLS_ROCPROFILER_V1_TOOLS=1 LOGDUR_LOG_LOCATION=$log "$@"
status=$?
case ${STAND_IN_WRITES-table} in
none) exit $status ;;
other) echo '"Name","Calls"' > "$tables/host/1_counter_collection.csv"; exit $status ;;
esac
# The account is the last line of a log: a process that did not end in order has none.
grep -q '^# account: ' "$log" || exit $status
grep -v '^#' "$log" | awk -F , -v counters="$counters" -v writes="${STAND_IN_WRITES-table}" '
    BEGIN {
        count = split(counters, names, " ")
        print "\"Correlation_Id\",\"Dispatch_Id\",\"Agent_Id\",\"Queue_Id\",\"Process_Id\",\"Thread_Id\",\"Grid_Size\",\"Kernel_Id\"," \
            "\"Kernel_Name\",\"Workgroup_Size\",\"LDS_Block_Size\",\"Scratch_Size\",\"VGPR_Count\",\"Accum_VGPR_Count\",\"SGPR_Count\"," \
            "\"Counter_Name\",\"Counter_Value\",\"Start_Timestamp\",\"End_Timestamp\""
    }
    function row(dispatch, kernel, grid, counter, value) {
        printf "%d,%d,\"Agent 1\",1,1,1,%d,1,\"%s\",64,0,0,8,0,16,\"%s\",%.6f,1,2\n", dispatch, dispatch, grid, kernel, counter, value
    }
    NR == 1 { for (n = 1; n <= NF; n++) column[$n] = n; next }
    { kernels[++rows] = $column["kernel"]; gsub("\"", "", kernels[rows]); split($column["grid"], sizes, "x"); grids[rows] = sizes[1] * sizes[2] * sizes[3] }
    END {
        # A copy that the runtime makes by a kernel of its own.
        for (c = 1; c <= count; c++) row(1000000, "__amd_rocclr_copyBuffer", 64, names[c], 123456789)
        for (n = 1; n <= rows - (writes == "short"); n++)
            for (c = 1; c <= count; c++)
                row(n, kernels[n], grids[n], names[c], names[c] == "SQ_WAVES" ? grids[n] / 64 : 1000 * length(names[c]) + n)
    }' > "$tables/host/1_counter_collection.csv"
exit $status
