# Reads the reasons, then the regions; writes COVERAGE.md.
BEGIN { FS = "\t" }
# A reason: file, function, why.
FNR == NR { if ($0 !~ /^#/ && NF == 3) why[$1 "\t" $2] = $3; next }
{
    if (!($1 in all)) order[++files] = $1
    all[$1]++
    if ($5) { met[$1]++; next }
    key = $1 "\t" $2
    if (!(key in left)) keys[++found] = key
    left[key]++
    if (!(key in why)) print "reasons.txt has no reason why " $1 ":" $3 ":" $4 " (" $2 ") is not reached" > "/dev/stderr"
    unknown += !(key in why)
}
END {
    for (key in why) if (!(key in left)) {
        split(key, of, "\t")
        print "reasons.txt has a reason for " of[1] " (" of[2] "), all of which is reached" > "/dev/stderr"
        unknown++
    }
    if (unknown) exit 1
    print "# Which regions of the cached paths the laws reach\n"
    print "Written by `make law-coverage`, which runs the laws of `crates/core/tests` (" laws ") with source-based coverage. A region is a basic block"
    print "of code. *Left out* are regions that no law reaches, with the reasons below.\n"
    print "| File | Regions | Reached | Left out |\n|---|---|---|---|"
    for (at = 1; at <= files; at++) {
        file = order[at]
        printf "| %s | %d | %d (%d%%) | %d |\n", file, all[file], met[file], 100 * met[file] / all[file], all[file] - met[file]
    }
    print "\n## Regions that are not reached\n"
    for (at = 1; at <= found; at++) {
        split(keys[at], of, "\t")
        printf "- %s `%s`, %d: %s\n", of[1], of[2], left[keys[at]], why[keys[at]]
    }
}
