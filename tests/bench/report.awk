# SPDX-License-Identifier: Apache-2.0
# Turns measures, in the form that loss.sh describes, into the report; exits with 1 where a goal is missed.
BEGIN {
    FS = "\t"
}

NF == 1 && /^#/ {
    print substr($0, 3)
    next
}

$1 == "skipped" {
    printf "skip  %s\n", $2
    next
}

NF != 4 {
    printf "FAIL  not a measure: %s\n", $0
    failed = 1
    next
}

{
    verdict = "info"
    goal = ""
    if ($4 != "-") {
        limit = substr($4, 2) + 0
        met = substr($4, 1, 1) == "<" ? $2 + 0 < limit : $2 + 0 > limit
        verdict = met ? "pass" : "FAIL"
        goal = "goal " $4
        if (!met)
            failed = 1
    }
    printf "%-4s  %-58s %14s %-5s  %s\n", verdict, $1, $2, $3, goal
}

END {
    exit failed
}
